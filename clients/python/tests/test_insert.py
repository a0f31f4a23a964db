"""Inserting, explaining and waiting, over each kind of connection."""

import json
import subprocess
import sys
import textwrap
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from uniqueue import (
    AsyncClient,
    Busy,
    Client,
    Error,
    IdTaken,
    InvalidArgument,
    QueueFull,
    Rejected,
    UniquePolicy,
    UnknownParent,
    WaitTimeout,
)

from .database import URL, connect, new_name, one, row_of

BY_ARGS: UniquePolicy = {"keys": ["args"]}
REJECT: UniquePolicy = {"keys": ["args"], "on_conflict": "reject"}


class Insert(unittest.TestCase):
    def setUp(self) -> None:
        self.kind = new_name()
        self.connection = self.enterContext(psycopg.connect(URL))
        self.client = Client(self.connection)

    def jobs(self) -> int:
        found: int = one("SELECT count(*) FROM uniqueue.job WHERE kind = %s", self.kind)
        return found

    def test_job_exists_once_the_transaction_commits(self) -> None:
        self.client.insert(self.kind, {"n": 1})
        self.assertEqual(self.jobs(), 0)
        self.connection.rollback()
        self.client.insert(self.kind, {"n": 1})
        self.connection.commit()
        self.assertEqual(self.jobs(), 1)

    def test_duplicate_is_answered_with_the_holder(self) -> None:
        first = self.client.insert(self.kind, {"n": 1}, unique=BY_ARGS)
        again = self.client.insert(self.kind, {"n": 1}, unique=BY_ARGS)
        self.assertEqual((first.outcome, first.duplicate, first.state), ("inserted", False, "available"))
        self.assertEqual((again.outcome, again.duplicate, again.id), ("duplicate", True, first.id))
        self.assertEqual(first.unique_key, self.client.unique_key(self.kind, {"n": 1}, unique=BY_ARGS))
        replace: UniquePolicy = {"keys": ["args"], "on_conflict": "replace"}
        self.assertEqual(self.client.insert(self.kind, {"n": 1}, unique=replace).replaced, first.id)

    def test_every_source_inserts(self) -> None:
        with ConnectionPool(URL, min_size=1) as pool, self.connection.cursor(row_factory=dict_row) as cursor:
            first = self.client.on(pool).insert(self.kind, unique=BY_ARGS)
            self.assertEqual(self.jobs(), 1)
            self.assertEqual(self.client.on(cursor).insert(self.kind, unique=BY_ARGS).id, first.id)

    def test_rejected_duplicate_is_an_error_and_the_transaction_goes_on(self) -> None:
        first = self.client.insert(self.kind, {"n": 1}, unique=REJECT)
        with self.assertRaises(Rejected) as raised:
            self.client.insert(self.kind, {"n": 1}, unique=REJECT)
        self.assertEqual((raised.exception.holder, raised.exception.state), (first.id, "available"))
        self.assertIn(str(first.id), str(raised.exception))
        self.connection.commit()
        self.assertEqual(self.jobs(), 1)

    def test_many_jobs_are_answered_in_their_order(self) -> None:
        answers = self.client.insert_many(
            {"kind": self.kind, "args": {"n": n}, "unique": BY_ARGS, "scheduled_at": datetime.now(timezone.utc)}
            for n in (1, 2, 1)
        )
        self.assertEqual([answer.outcome for answer in answers], ["inserted", "inserted", "duplicate"])
        self.assertEqual(answers[0].id, answers[2].id)

    def test_batch_with_a_rejected_job_inserts_none_and_names_each(self) -> None:
        held = self.client.insert(self.kind, {"n": 1}, unique=REJECT)
        with self.assertRaises(Rejected) as raised:
            self.client.insert_many({"kind": self.kind, "args": {"n": n}, "unique": REJECT} for n in (2, 1, 2))
        first, second = raised.exception.rejections
        self.assertEqual((first.index, first.holder, first.earlier), (1, held.id, None))
        self.assertEqual((second.index, second.holder, second.earlier), (2, None, 0))
        self.connection.commit()
        self.assertEqual(self.jobs(), 1)

    def test_arguments_at_fault_are_named(self) -> None:
        for policy, text in (({"keyz": []}, "keyz"), ({"keys": ["arg"]}, "arg")):
            with self.assertRaisesRegex(InvalidArgument, text), self.connection.transaction():
                self.client.insert(self.kind, unique=policy)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "time zone"):
            self.client.insert(self.kind, scheduled_at=datetime(2030, 1, 1))
        with self.assertRaises(ValueError):
            self.client.insert(self.kind, {"n": float("nan")})

    def test_another_job_under_the_same_id_is_an_error(self) -> None:
        first = self.client.insert(self.kind, {"n": 1})
        self.assertEqual(self.client.insert(self.kind, {"n": 1}, id=first.id).id, first.id)
        with self.assertRaisesRegex(IdTaken, str(first.id)):
            self.client.insert(self.kind, {"n": 2}, id=first.id)

    def test_key_of_an_open_transaction_is_busy_after_max_wait(self) -> None:
        self.client.insert(self.kind, unique=BY_ARGS)
        with connect() as other, self.assertRaises(Busy):
            Client(other).insert(self.kind, unique=BY_ARGS, max_wait=timedelta(milliseconds=20))

    def test_full_queue_is_an_error_with_its_room(self) -> None:
        queue = new_name()
        with connect() as other:
            other.execute("SELECT uniqueue.set_queue(%s, %s)", [queue, '{"max_waiting": 1}'])
        with self.assertRaises(QueueFull) as raised:
            self.client.insert_many([{"kind": self.kind, "queue": queue}, {"kind": self.kind, "queue": queue}])
        full = raised.exception
        self.assertEqual((full.queue, full.max_waiting, full.room), (queue, 1, 1))
        self.connection.rollback()
        with connect() as other:
            other.execute("SELECT uniqueue.set_queue(%s, %s)", [queue, '{"max_waiting": null}'])

    def test_explanation_names_the_holder_and_writes_nothing(self) -> None:
        first = self.client.insert(self.kind, {"n": 1}, unique=BY_ARGS)
        explained = self.client.explain(self.kind, {"n": 1}, unique=BY_ARGS)
        self.assertEqual((explained.outcome, explained.holder, explained.holder_state), ("duplicate", first.id, "available"))
        self.assertEqual(explained.canonical, f'{{"args":{{"n":1}},"type":"{self.kind}"}}')
        self.assertEqual(self.client.explain(self.kind, {"n": 2}, unique=BY_ARGS).outcome, "inserted")

    def test_registered_kind_gives_what_the_insert_leaves_out(self) -> None:
        queue = new_name()
        self.client.register(self.kind, queue=queue, unique=BY_ARGS, max_attempts=3)
        first = self.client.insert(self.kind, {"n": 1})
        self.assertEqual(self.client.insert(self.kind, {"n": 1}).id, first.id)
        self.assertEqual(self.client.insert_many([{"kind": self.kind, "args": {"n": 1}}])[0].id, first.id)
        self.assertEqual(self.client.explain(self.kind, {"n": 1}).holder, first.id)
        self.assertFalse(self.client.insert(self.kind, {"n": 1}, unique=None).duplicate)
        self.assertFalse(self.client.insert_many([{"kind": self.kind, "args": {"n": 1}, "unique": None}])[0].duplicate)

    def test_programs_of_one_role_erase_nothing_of_each_others_registrations(self) -> None:
        registered = "SELECT concat_ws(' ', queue, max_attempts, unique_policy ->> 'keys', owners::text) FROM uniqueue.kind WHERE name = %s"
        Client(self.connection, program="a").register(self.kind, unique=BY_ARGS, max_attempts=3)
        Client(self.connection, program="b").on(self.connection).register(self.kind, queue="mails")
        Client(self.connection, program="a").register(self.kind, unique=BY_ARGS)
        row = self.connection.execute(registered, [self.kind]).fetchone()
        keys = json.dumps(BY_ARGS["keys"])
        self.assertEqual(row, (f'mails {keys} {{"queue": "b", "unique_policy": "a"}}',))

    def test_program_is_the_main_file_by_its_whole_path_and_a_text_has_none(self) -> None:
        register = f"""
            import os, psycopg, uniqueue
            with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
                uniqueue.Client(connection).register("{self.kind}", queue="mails")
        """
        with TemporaryDirectory() as directory:
            main = Path(directory).resolve() / "main.py"
            main.write_text(textwrap.dedent(register))
            owned = f'{{"queue": "{main}"}}'
            for arguments, owners in ((["main.py"], owned), (["-c", textwrap.dedent(register)], "{}")):
                subprocess.run([sys.executable, *arguments], check=True, cwd=directory)
                with connect() as other:
                    found = other.execute("SELECT owners::text FROM uniqueue.kind WHERE name = %s", [self.kind]).fetchone()
                self.assertEqual(found, (owners,))


class Wait(unittest.TestCase):
    def setUp(self) -> None:
        self.connection = self.enterContext(psycopg.connect(URL))
        self.client = Client(self.connection)

    def test_wait_in_a_transaction_is_an_error(self) -> None:
        job = self.client.insert(new_name())
        with self.assertRaisesRegex(Error, "commit first"):
            self.client.wait(job.id)

    def test_a_job_expires_at_a_time_or_after_one(self) -> None:
        at = datetime.now(timezone.utc) + timedelta(hours=3)
        kind = new_name()
        self.client.register(kind, expires_in=timedelta(hours=9))
        jobs = [
            self.client.insert(kind, expires_at=at),
            self.client.insert(kind, scheduled_at=at, expires_in=timedelta(milliseconds=500)),
            *self.client.insert_many([{"kind": kind, "expires_at": at}, {"kind": kind, "expires_in": timedelta(hours=1)}]),
            self.client.insert(kind),
        ]
        self.connection.commit()
        ends = [one("SELECT expires_at FROM uniqueue.job WHERE id = %s", job.id) for job in jobs]
        self.assertEqual(ends[:3], [at, at + timedelta(milliseconds=500), at])
        self.assertTrue(ends[3] < at < ends[4])
        with self.assertRaisesRegex(ValueError, "expires_at: needs a time zone"):
            self.client.insert(kind, expires_at=datetime.now())

    def test_a_job_waits_for_those_that_it_runs_after(self) -> None:
        kind = new_name()
        first = self.client.insert(kind)
        child = self.client.insert(kind, after=[first.id], after_final=[str(first.id)])
        self.assertEqual((first.state, child.state), ("available", "pending"))
        batch = self.client.insert_many([{"kind": kind}, {"kind": kind, "after": [0], "after_failed": [first.id]}])
        self.assertEqual([job.state for job in batch], ["available", "pending"])
        self.connection.commit()
        parents = self.client.parents(child.id)
        self.assertEqual([(one.id, one.kind, one.state, one.outcome) for one in parents], [(first.id, kind, "available", None)])
        with self.assertRaisesRegex(UnknownParent, "job"):
            self.client.insert(kind, after=[uuid4()])
        self.connection.rollback()

    def test_wait_answers_with_the_end_of_each_job(self) -> None:
        job = self.client.insert(new_name())
        self.connection.commit()
        with self.assertRaises(WaitTimeout):
            self.client.wait(job.id, timeout=0.05)
        with connect() as other:
            other.execute("SELECT uniqueue.cancel_jobs(ARRAY[%s::uuid])", [job.id])
        ended, gone = self.client.wait_all([job.id, uuid4()])
        self.assertEqual((ended.id, ended.state, ended.output), (job.id, "cancelled", None))
        self.assertIsNone(gone.state)


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_every_source_inserts_explains_and_waits(self) -> None:
        kind = new_name()
        async with AsyncConnectionPool(URL, min_size=1, open=False) as pool:
            client = AsyncClient(pool)
            first = await client.insert(kind, unique=BY_ARGS)
            async with pool.connection() as connection, connection.cursor() as cursor:
                self.assertEqual((await client.on(cursor).insert(kind, unique=BY_ARGS)).id, first.id)
                [again] = await client.on(connection).insert_many([{"kind": kind, "unique": BY_ARGS}])
                self.assertEqual(again.id, first.id)
                with self.assertRaises(Rejected):
                    await client.on(connection).insert(kind, unique=REJECT)
                with self.assertRaisesRegex(Error, "commit first"):
                    await client.on(connection).wait(first.id)
            self.assertEqual((await client.explain(kind, unique=BY_ARGS)).holder, first.id)
            self.assertEqual(await client.unique_key(kind, unique=BY_ARGS), first.unique_key)
            with connect() as other:
                other.execute("SELECT uniqueue.cancel_jobs(ARRAY[%s::uuid])", [first.id])
            self.assertEqual((await client.wait(first.id)).state, "cancelled")
            self.assertEqual(row_of(first.id)["state"], "cancelled")


if __name__ == "__main__":
    unittest.main()
