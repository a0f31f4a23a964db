"""Working jobs: outcomes, time limits, heartbeats, stops, and a database that goes away."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from datetime import timedelta
from typing import Any, TypedDict
from unittest.mock import patch

import psycopg
from psycopg.conninfo import make_conninfo

from uniqueue import Busy, Cancel, Client, Discard, Job, KindOptions, Retry, Snooze, Stale, Stopped, Worker

from .database import LONG, URL, connect, new_name, one, row_of, until, working

logging.getLogger("uniqueue").setLevel(logging.CRITICAL)


class Numbers(TypedDict):
    n: int


class Work(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.kind = self.queue = new_name()
        self.connection = self.enterContext(connect())
        self.client = Client(self.connection)
        self.worker = Worker(URL, queues=[self.queue], poll=0.05)

    def insert(self, args: object = None, **options: Any) -> Any:
        return self.client.insert(self.kind, {} if args is None else args, queue=self.queue, **options).id

    async def wait(self, id: Any) -> Any:
        return await asyncio.to_thread(self.client.wait, id, timeout=LONG)

    async def test_functions_and_coroutines_complete_with_what_they_return(self) -> None:
        threads = set()

        @self.worker.job(self.kind)
        def double(job: Job[Numbers]) -> int:
            threads.add(threading.current_thread().name)
            return 2 * job.args["n"]

        @self.worker.job(other := new_name())
        async def triple(job: Job[Numbers]) -> dict[str, int]:
            threads.add(threading.current_thread().name)
            return {"n": 3 * job.args["n"]}

        jobs = [self.insert({"n": 2}), self.client.insert(other, {"n": 2}, queue=self.queue).id]
        async with working(self.worker):
            self.assertEqual((await self.wait(jobs[0])).output, 4)
            self.assertEqual((await self.wait(jobs[1])).output, {"n": 6})
        self.assertEqual(threads, {f"job {jobs[0]}", "MainThread"})

    async def test_each_outcome_is_recorded(self) -> None:
        @self.worker.job(self.kind)
        def end(job: Job[dict[str, str]]) -> object:
            match job.args["how"]:
                case "raise":
                    raise ValueError("no luck")
                case "retry":
                    raise Retry("later", after=3600, code="busy")
                case "snooze":
                    return Snooze(timedelta(hours=1))
                case "cancel":
                    raise Cancel("not wanted")
                case "discard":
                    return Discard("hopeless")
                case "bytes":
                    return b"not JSON"
                case "nul":
                    return "not storable: \0"
                case "nul error":
                    raise ValueError("a \0 and a \ud800")
                case _:
                    return None

        hows = ("raise", "retry", "snooze", "cancel", "discard", "bytes", "nul", "nul error", "end")
        # With one attempt a failure is final. Otherwise the next attempt may begin before the test looks.
        jobs = {how: self.insert({"how": how}, max_attempts=2 if how == "retry" else 1) for how in hows}
        async with working(self.worker):
            await until(lambda: all(row_of(id)["state"] not in ("available", "running") for id in jobs.values()))
        ended = {how: row_of(id) for how, id in jobs.items()}
        self.assertEqual(ended["end"]["state"], "completed")
        for how, state, attempt, error in (
            ("raise", "discarded", 1, "ValueError: no luck"),
            ("retry", "retryable", 1, "later"),
            ("snooze", "scheduled", 0, None),
            ("cancel", "cancelled", 1, "not wanted"),
            ("discard", "discarded", 1, "hopeless"),
            ("nul error", "discarded", 1, "ValueError: a \N{REPLACEMENT CHARACTER} and a ?"),
        ):
            row = ended[how]
            self.assertEqual((row["state"], row["attempt"], row["error"]), (state, attempt, error), how)
        stored = [one("SELECT errors -> -1 FROM uniqueue.job WHERE id = %s", jobs[how]) for how in ("raise", "retry")]
        self.assertEqual([(error.get("type"), error.get("code")) for error in stored], [("ValueError", None), (None, "busy")])
        self.assertTrue(ended["retry"]["is_due_later"] and ended["snooze"]["is_due_later"])
        self.assertIn("cannot make JSON of a bytes", ended["bytes"]["error"])
        self.assertEqual((ended["nul"]["state"], ended["nul"]["output"]), ("completed", None))

    async def test_job_that_takes_too_long_fails_and_is_told_to_stop(self) -> None:
        told: list[str] = []

        @self.worker.job(self.kind, timeout=timedelta(milliseconds=50))
        async def sleep(job: Job[Any]) -> None:
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                told.append("coroutine")
                raise

        @self.worker.job(other := new_name(), timeout=timedelta(milliseconds=50))
        def sleep_in_thread(job: Job[Any]) -> None:
            try:
                job.sleep(LONG)
            except Stopped:
                told.append("thread")
                raise

        jobs = [self.insert(max_attempts=1), self.client.insert(other, queue=self.queue, max_attempts=1).id]
        async with working(self.worker):
            await until(lambda: len(told) == 2 and all(row_of(id)["state"] == "discarded" for id in jobs))
        self.assertEqual({row_of(id)["error"] for id in jobs}, {"timed out after 0.05 s"})
        self.assertEqual(one("SELECT errors -> -1 ->> 'code' FROM uniqueue.job WHERE id = %s", jobs[0]), "timed_out")

    async def test_heartbeat_keeps_a_long_job_and_sends_its_progress(self) -> None:
        worker = Worker(URL, queues=[self.queue], reserve=1)
        runs = []

        @worker.job(self.kind)
        async def work(job: Job[Any]) -> None:
            runs.append(job.attempt)
            job.progress = {"done": 1}
            await until(lambda: row_of(job.id)["progress"] == {"done": 1})
            await asyncio.sleep(1.5)

        job = self.insert()
        async with working(worker):
            self.assertEqual((await self.wait(job)).state, "completed")
        self.assertEqual(runs, [1])

    async def test_job_that_is_cancelled_is_told_to_stop_at_once(self) -> None:
        started, stopped = asyncio.Event(), asyncio.Event()

        @self.worker.job(self.kind)
        async def work(job: Job[Any]) -> None:
            started.set()
            try:
                await asyncio.sleep(LONG)
            finally:
                stopped.set()

        job = self.insert()
        async with working(self.worker):
            await asyncio.wait_for(started.wait(), LONG)
            self.connection.execute("SELECT uniqueue.cancel_jobs(ARRAY[%s::uuid])", [job])
            # Long before the next heartbeat, which comes after 20 s.
            await asyncio.wait_for(stopped.wait(), 5)
        self.assertEqual(row_of(job)["state"], "cancelled")

    async def test_idle_worker_is_woken_by_an_insert(self) -> None:
        worker = Worker(URL, queues=[self.queue], poll=1000)

        @worker.job(self.kind)
        async def work(job: Job[Any]) -> None:
            pass

        async with working(worker):
            await until(lambda: bool(one("SELECT count(*) FROM uniqueue.runner WHERE name = %s AND idle", worker.name)))
            self.assertEqual((await self.wait(self.insert())).state, "completed")

    async def test_worker_that_does_not_listen_polls(self) -> None:
        worker = Worker(URL, queues=[self.queue], poll=0.02, listen=False)

        @worker.job(self.kind)
        async def work(job: Job[Any]) -> None:
            pass

        async with working(worker):
            await asyncio.sleep(0.1)
            self.assertEqual((await self.wait(self.insert())).state, "completed")

    async def test_scheduled_job_starts_without_a_rust_runner(self) -> None:
        @self.worker.job(self.kind)
        async def work(job: Job[Any]) -> None:
            if job.attempt == 1:
                raise Retry("once more", after=0.1)

        job = self.insert()
        async with working(self.worker):
            self.assertEqual((await self.wait(job)).state, "completed")
        self.assertEqual(row_of(job)["attempt"], 2)

    async def test_stop_lets_running_jobs_end_and_fetches_no_more(self) -> None:
        worker = Worker(URL, queues=[self.queue], concurrency=1)
        started = asyncio.Event()

        @worker.job(self.kind)
        async def work(job: Job[Any]) -> None:
            started.set()
            await worker._stopping.wait()

        first, second = self.insert(), self.insert()
        async with working(worker):
            await asyncio.wait_for(started.wait(), LONG)
        self.assertEqual((row_of(first)["state"], row_of(second)["state"]), ("completed", "available"))

    async def test_jobs_that_outlast_the_stop_are_given_back_with_their_attempt(self) -> None:
        worker = Worker(URL, queues=[self.queue], stop_timeout=0.05)
        started = []

        @worker.job(self.kind)
        async def sleep(job: Job[Any]) -> None:
            started.append(job)
            await asyncio.sleep(LONG)

        @worker.job(other := new_name())
        def hang(job: Job[Any]) -> None:
            started.append(job)
            time.sleep(1)

        jobs = [self.insert(), self.client.insert(other, queue=self.queue).id]
        async with working(worker):
            await until(lambda: len(started) == 2)
        self.assertTrue(all(job.stopped for job in started))
        self.assertEqual([(row_of(id)["state"], row_of(id)["attempt"]) for id in jobs], [("available", 0)] * 2)

    async def test_effect_and_completion_commit_together(self) -> None:
        stale = []

        @self.worker.job(self.kind)
        def work(job: Job[Numbers]) -> str:
            with psycopg.connect(URL) as connection, connect() as other:
                if job.args["n"] == 2:
                    other.execute("SELECT uniqueue.cancel_jobs(ARRAY[%s::uuid])", [job.id])
                try:
                    Client(connection).complete(job, {"paid": True})
                except Stale:
                    stale.append(job.id)
                    connection.rollback()
            return "ignored: the job is completed already"

        done, cancelled = self.insert({"n": 1}), self.insert({"n": 2})
        async with working(self.worker):
            self.assertEqual((await self.wait(done)).output, {"paid": True})
            self.assertEqual((await self.wait(cancelled)).state, "cancelled")
            await until(lambda: stale == [cancelled])

    async def test_failure_after_a_completion_that_rolls_back_is_recorded(self) -> None:
        @self.worker.job(self.kind)
        def work(job: Job[dict[str, str]]) -> None:
            with psycopg.connect(URL) as connection:
                Client(connection).complete(job)
                if job.args["how"] == "raise":
                    raise ValueError("after the completion")
                if job.args["how"] == "roll back":
                    connection.rollback()
            if job.args["how"] == "raise after the commit":
                raise ValueError("after the commit")

        hows = ("raise", "roll back", "raise after the commit")
        jobs = {how: self.insert({"how": how}, max_attempts=1) for how in hows}
        async with working(self.worker):
            await until(lambda: all(row_of(id)["state"] not in ("available", "running") for id in jobs.values()))
        rows = {how: row_of(id) for how, id in jobs.items()}
        self.assertEqual(rows["raise"]["error"], "ValueError: after the completion")
        self.assertEqual(rows["roll back"]["error"], "the transaction that completed the job did not commit")
        self.assertEqual([rows[how]["state"] for how in hows], ["discarded", "discarded", "completed"])

    async def test_completion_of_a_locked_job_is_busy_and_not_stale(self) -> None:
        @self.worker.job(self.kind)
        def work(job: Job[Any]) -> None:
            with psycopg.connect(URL) as connection, psycopg.connect(URL) as locking:
                locking.execute("SELECT FROM uniqueue.job WHERE id = %s FOR UPDATE", [job.id])
                with self.assertRaises(Busy):
                    Client(connection).complete(job)
                locking.rollback()
                Client(connection).complete(job, "\0")  # In the same transaction, with an output that cannot be stored.

        job = self.insert(max_attempts=1)
        async with working(self.worker):
            self.assertEqual(((result := await self.wait(job)).state, result.output), ("completed", None))

    async def test_whatever_a_function_raises_or_returns_ends_its_job_and_nothing_else(self) -> None:
        class Unspeakable(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no text")

        def end(job: Job[dict[str, str]]) -> object:
            match job.args["how"]:
                case "exit":
                    sys.exit(3)
                case "interrupt":
                    raise KeyboardInterrupt
                case "iteration":
                    raise StopIteration
                case "deep":
                    deep: list[Any] = []
                    for _ in range(100_000):
                        deep = [deep]
                    return deep
                case "circular":
                    circular: list[Any] = []
                    circular.append(circular)
                    return circular
                case "unspeakable":
                    raise Unspeakable
                case "reason":
                    return Retry(5)  # type: ignore[arg-type]
                case "delay":
                    return Snooze("soon")  # type: ignore[arg-type]
                case "past":
                    return Retry("late", after=-1)
                case "code":
                    return Cancel("not wanted", code="c" * 200)
            return "fine"

        hows = (
            "exit", "interrupt", "iteration", "deep", "circular", "unspeakable", "reason", "delay", "past", "code", "fine",
        )  # fmt: skip

        @self.worker.job(self.kind)
        def in_thread(job: Job[dict[str, str]]) -> object:
            return end(job)

        @self.worker.job(in_loop := new_name())
        async def coroutine(job: Job[dict[str, str]]) -> object:
            return end(job)

        @self.worker.job(wrong := new_name())  # type: ignore[type-var]
        async def wrong_signature(job: Job[Any], more: int) -> None:
            pass

        jobs = {(kind, how): self.client.insert(kind, {"how": how}, queue=self.queue, max_attempts=1).id
                for kind in (self.kind, in_loop) for how in hows}
        jobs[wrong, "signature"] = self.client.insert(wrong, queue=self.queue, max_attempts=1).id
        async with working(self.worker):
            await until(lambda: all(row_of(id)["state"] not in ("available", "running") for id in jobs.values()))
            await until(lambda: not self.worker._runs)  # No slot is kept.
        for (kind, how), id in jobs.items():
            row = row_of(id)
            expected = {"fine": "completed", "code": "cancelled"}.get(how, "discarded")
            self.assertEqual(row["state"], expected, (kind == in_loop, how, row))
        self.assertEqual(row_of(jobs[in_loop, "exit"])["error"], "SystemExit: 3")
        self.assertIn("wrong_signature() missing 1 required", row_of(jobs[wrong, "signature"])["error"])

    async def test_progress_that_cannot_be_stored_stops_no_heartbeat(self) -> None:
        worker = Worker(URL, queues=[self.queue], reserve=1)
        bad: list[Any] = ["\0", "\ud800", b"no JSON", float("nan"), []]
        for _ in range(5_000):
            bad[-1] = [bad[-1]]

        @worker.job(self.kind)
        async def work(job: Job[Any]) -> int:
            job.progress = bad[job.args["n"]] if job.args["n"] >= 0 else {"done": 1}
            await asyncio.sleep(1.6)
            return 1

        jobs = [self.insert({"n": n}) for n in (*range(len(bad)), -1)]
        async with working(worker):
            for job in jobs:
                self.assertEqual((await self.wait(job)).output, 1)
        self.assertEqual([row_of(job)["attempt"] for job in jobs], [1] * 6)
        self.assertEqual([row_of(job)["progress"] for job in jobs], [None] * 5 + [{"done": 1}])

    async def test_output_that_is_too_large_is_dropped_before_it_is_sent(self) -> None:
        self.enterContext(patch("uniqueue.recording._LARGEST_VALUE", 100))
        self.worker.job(self.kind)(lambda job: "x" * job.args["n"])
        jobs = [self.insert({"n": n}) for n in (200, *[60] * 5)]
        async with working(self.worker):
            outputs = [(await self.wait(job)).output for job in jobs]
        self.assertEqual(outputs, [None, *["x" * 60] * 5])

    async def test_locked_job_holds_up_no_other(self) -> None:
        worker = Worker(URL, queues=[self.queue], concurrency=1, poll=0.05)
        started, go = threading.Event(), threading.Event()

        @worker.job(self.kind)
        def work(job: Job[dict[str, bool]]) -> None:
            if job.args.get("waits"):
                started.set()
                go.wait(LONG)

        locked = self.insert({"waits": True})
        with psycopg.connect(URL) as locking:
            async with working(worker):
                await asyncio.to_thread(started.wait, LONG)
                locking.execute("SELECT FROM uniqueue.job WHERE id = %s FOR UPDATE", [locked])
                go.set()
                for other in [self.insert() for _ in range(3)]:
                    self.assertEqual((await self.wait(other)).state, "completed")
                self.assertEqual(row_of(locked)["state"], "running")
                locking.rollback()
                self.assertEqual((await self.wait(locked)).state, "completed")

    async def test_result_that_a_trigger_refuses_holds_up_no_other(self) -> None:
        refused = self.insert()
        self.connection.execute(f"""
            CREATE FUNCTION {(name := "refuse_" + self.queue.replace(".", "_"))}() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE 'not this one' USING ERRCODE = '54000'; END $$;
            CREATE TRIGGER {name} BEFORE UPDATE ON uniqueue.job FOR EACH ROW
                WHEN (old.id = '{refused}' AND new.state = 'completed') EXECUTE FUNCTION {name}()
        """.encode())  # fmt: skip
        try:
            self.worker.job(self.kind)(lambda job: None)
            async with working(self.worker):
                await until(lambda: row_of(refused)["state"] == "running")
                self.assertEqual((await self.wait(self.insert())).state, "completed")
                self.connection.execute(f"DROP FUNCTION {name} CASCADE".encode())
                self.assertEqual((await self.wait(refused)).state, "completed")
        finally:
            self.connection.execute(f"DROP FUNCTION IF EXISTS {name} CASCADE".encode())

    async def test_blocked_event_loop_is_logged_and_is_no_crash_of_its_jobs(self) -> None:
        worker = Worker(URL, queues=[self.queue], reserve=1)
        started = asyncio.Event()

        @worker.job(self.kind)
        async def work(job: Job[dict[str, bool]]) -> None:
            if job.args["blocks"]:
                await started.wait()
                time.sleep(1.2)  # Beyond the reservation of both jobs.
                with connect() as connection:
                    connection.execute("SELECT uniqueue._run_service('rescuer')")
            else:
                started.set()
                await asyncio.sleep(LONG)

        jobs = [self.insert({"blocks": blocks}) for blocks in (False, True)]
        with self.assertLogs("uniqueue", "WARNING") as logs:
            async with working(worker):
                await until(lambda: one("SELECT count(*) FROM uniqueue.job WHERE id = ANY (%s) AND errors <> '[]'", jobs) == 2)
                lost = "SELECT count(*) FROM uniqueue.job WHERE id = ANY (%s) AND crashes = 0 AND errors -> 0 ->> 'error' LIKE 'lost%%'"
                await until(lambda: one(lost, jobs) == 2)
        self.assertIn("the event loop stood still", "\n".join(logs.output))

    async def test_worker_outlives_a_function_that_has_more_columns(self) -> None:
        database = f"columns_{os.getpid()}"
        template = one("SELECT current_database()")
        self.connection.close()
        admin = self.enterContext(psycopg.connect(make_conninfo(URL, dbname="postgres"), autocommit=True))
        admin.execute(f"CREATE DATABASE {database} TEMPLATE {template}".encode())
        self.addCleanup(admin.execute, f"DROP DATABASE {database} WITH (FORCE)".encode())
        with psycopg.connect(make_conninfo(URL, dbname=database), autocommit=True) as connection:
            client = Client(connection)
            worker = Worker(make_conninfo(URL, dbname=database), queues=[self.queue], poll=0.02, reserve=1)
            worker.job(self.kind)(lambda job: time.sleep(job.args["seconds"]))

            def work(seconds: float) -> Any:
                job = client.insert(self.kind, {"seconds": seconds}, queue=self.queue).id
                return client.wait(job, timeout=LONG).state

            async with working(worker):
                for _ in range(8):  # Then the statements are prepared.
                    self.assertEqual(await asyncio.to_thread(work, 0.5), "completed")
                for function in ("fetch_jobs", "finish_jobs", "extend_jobs", "maintain"):
                    connection.execute(GROWN.replace("[name]", function).encode())
                self.assertEqual(await asyncio.to_thread(work, 2.5), "completed")
            of_queue = "SELECT attempt, crashes, errors FROM uniqueue.job WHERE queue = %s"
            ends = connection.execute(of_queue, [self.queue]).fetchall()
            self.assertEqual(ends, [(1, 0, [])] * 9)

    async def test_worker_that_does_not_listen_prepares_nothing(self) -> None:
        worker = Worker(URL, queues=[self.queue], poll=0.01, listen=False)
        worker.job(self.kind)(lambda job: None)
        async with working(worker):
            for _ in range(8):
                await self.wait(self.insert())
            for session in (worker._main, worker._side):
                cursor = await (await session.open()).execute("SELECT count(*) FROM pg_prepared_statements")
                self.assertEqual(await cursor.fetchone(), (0,))

    async def test_worker_survives_the_end_of_its_connections(self) -> None:
        started, end = asyncio.Event(), asyncio.Event()

        @self.worker.job(self.kind)
        async def work(job: Job[Any]) -> None:
            started.set()
            await end.wait()

        first = self.insert()
        name = new_name()
        self.worker = Worker(make_conninfo(URL, application_name=name), queues=[self.queue], poll=0.05)
        self.worker.job(self.kind)(work)
        async with working(self.worker):
            await asyncio.wait_for(started.wait(), LONG)
            ended = one(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s", name
            )
            self.assertEqual(ended, 2)
            end.set()
            self.assertEqual((await self.wait(first)).state, "completed")
            self.assertEqual((await self.wait(self.insert())).state, "completed")

    async def test_worker_without_rights_ends_with_the_error(self) -> None:
        worker = Worker(URL, schema="not_there", queues=[self.queue])
        worker.job(self.kind)(lambda job: None)
        with self.assertRaises((psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName)):
            await asyncio.wait_for(worker.serve(), LONG)

    async def test_rights_of_the_page_are_enough(self) -> None:
        role = f"worker_{os.getpid()}"
        self.connection.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA uniqueue TO {role}")
        functions = ("fetch_jobs", "extend_jobs", "finish_jobs", "maintain", "stop_worker")
        signatures = "SELECT string_agg(oid::regprocedure::text, ', ') FROM pg_proc WHERE proname = ANY (%s)"
        self.connection.execute(f"GRANT EXECUTE ON FUNCTION {one(signatures, list(functions))} TO {role}")
        worker = Worker(make_conninfo(URL, user=role), queues=[self.queue], register=False)

        @worker.job(self.kind)
        async def work(job: Job[Any]) -> None:
            pass

        try:
            async with working(worker):
                self.assertEqual((await self.wait(self.insert())).state, "completed")
        finally:
            self.connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")

    async def test_kinds_are_registered_at_the_start(self) -> None:
        @self.worker.job(self.kind, queue=self.queue, unique={"keys": ["args"]})
        async def work(job: Job[Any]) -> None:
            pass

        async with working(self.worker):
            await until(lambda: bool(one("SELECT count(*) FROM uniqueue.kind WHERE name = %s", self.kind)))
        first, again = self.client.insert(self.kind, {"n": 1}), self.client.insert(self.kind, {"n": 1})
        self.assertEqual((again.id, again.duplicate), (first.id, True))

    async def test_worker_that_declares_a_name_or_less_than_others_erases_nothing(self) -> None:
        registered = "SELECT concat_ws(' ', queue, max_attempts, timeout, unique_policy) FROM uniqueue.kind WHERE name = %s"
        producer = Client(self.connection, program="producer")
        producer.register(self.kind, queue=self.queue, unique={"keys": ["args"]}, max_attempts=3)
        before = one(registered, self.kind)
        for options in (KindOptions(), KindOptions(timeout=timedelta(seconds=5))):
            worker = Worker(URL, queues=[self.queue])
            worker.job(self.kind, **options)(lambda job: None)
            async with working(worker):
                await until(lambda: bool(one("SELECT count(*) FROM uniqueue.runner WHERE name = %s", worker.name)))
            self.assertEqual(one(registered, self.kind).replace(" 00:00:05", ""), before)
        first, again = self.client.insert(self.kind, {"n": 1}), self.client.insert(self.kind, {"n": 1})
        self.assertEqual((again.id, again.duplicate), (first.id, True))

    async def test_next_version_of_a_worker_drops_what_it_declares_no_more(self) -> None:
        for options in (KindOptions(queue=self.queue, priority=5), KindOptions(queue=self.queue)):
            worker = Worker(URL, queues=[self.queue])
            worker.job(self.kind, **options)(lambda job: None)
            async with working(worker):
                await until(lambda: bool(one("SELECT count(*) FROM uniqueue.runner WHERE name = %s", worker.name)))
        self.assertEqual(one("SELECT priority IS NULL FROM uniqueue.kind WHERE name = %s", self.kind), True)


GROWN = """
DO $do$
DECLARE
    given record;
BEGIN
    SELECT
        p.oid::regprocedure AS name, pg_get_function_arguments(p.oid) AS arguments,
        regexp_replace(replace(pg_get_function_result(p.oid), ' text', ' varchar'), '[)]$', ', newer integer)') AS result,
        (SELECT string_agg('$' || n, ', ') FROM generate_series(1, p.pronargs) AS n) AS parameters
    INTO given
    FROM pg_proc AS p
    WHERE p.pronamespace = 'uniqueue'::regnamespace AND p.proname = '[name]';
    CREATE SCHEMA IF NOT EXISTS former;
    EXECUTE format('ALTER FUNCTION %s SET SCHEMA former', given.name);
    EXECUTE format(
        'CREATE FUNCTION uniqueue.[name](%s) RETURNS %s LANGUAGE sql AS $$ SELECT f.*, 1 FROM former.[name](%s) AS f $$',
        given.arguments, given.result, given.parameters
    );
END
$do$
"""
"""Gives a function one more column, and its texts another type, as a migration may."""

PROGRAM = """
import sys, time
import uniqueue

worker = uniqueue.Worker(sys.argv[1], queues=[sys.argv[2]], stop_timeout=0.1, reserve=5)

@worker.job(sys.argv[2])
def hang(job):
    print("started", flush=True)
    time.sleep(1000)

worker.run()
print("stopped", flush=True)
"""


class Process(unittest.TestCase):
    def test_sigterm_gives_back_even_a_job_that_hangs(self) -> None:
        queue = new_name()
        with connect() as connection:
            job = Client(connection).insert(queue, queue=queue).id
        command = [sys.executable, "-c", PROGRAM, URL, queue]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "started\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.stdout.readline(), "stopped\n")
            self.assertEqual(process.wait(LONG), 0)
        self.assertEqual((row_of(job)["state"], row_of(job)["attempt"]), ("available", 0))


if __name__ == "__main__":
    unittest.main()
