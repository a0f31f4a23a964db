"""A worker: fetches jobs, runs the function of their kind, and records how they end.

Two connections serve a process. The main connection records results and fetches jobs, in one statement if there is both.
The second connection listens, extends reservations and does maintenance, so that a slow fetch delays no heartbeat. A job keeps its slot until its function has returned and its result
is recorded. While the database is away, results wait. A result that comes too late does not count.
"""

import asyncio
import logging
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar, Unpack
from uuid import UUID

import psycopg

from . import statements
from .errors import Busy, Error, InvalidArgument, is_of_the_time
from .job import KindOptions
from .outcome import INTERRUPT, Verdict, failed
from .recording import MOST_JOBS, Recording, arguments, next_batch, progress_of, timed_out, verdict_of
from .running import Function, Job, Run, warn_of_dropped
from .session import Connect, Session
from .statements import Row, Statement

F = TypeVar("F", bound=Function)
T = TypeVar("T")

log = logging.getLogger("uniqueue")

_FETCHED = (
    "id", "run", "kind", "queue", "args", "meta", "attempt", "max_attempts", "errors", "progress", "created_at",
    "scheduled_at", "unique_key", "group_key",
)  # fmt: skip
_STARTED = (*_FETCHED, "worker_id", "timeout")
_LONGEST_BACKOFF = 5.0


class Worker:
    """Works the jobs of some kinds.

    ``connect`` is a connection string, or a coroutine function that returns a new connection.
    ``queues``: the queues, in the order in which they are asked. Default: those of the kinds.
    ``concurrency``: how many jobs run at once.
    ``name``: the name of this process in views, which no other worker has. Default: host, process id, a random number.
    ``reserve``: for how many seconds a job is reserved. If the process dies, its jobs come back after that. A heartbeat
    extends the reservation of a running job three times as often.
    ``poll``: how many seconds an idle worker waits between fetches where no notification wakes it.
    ``stop_timeout``: how many seconds running jobs have to end after a stop. Then they are given back.
    ``listen``: whether to listen for notifications. Set it to ``False`` behind a transaction pooler.
    ``register``: whether to register the kinds at the start, which needs the right to execute ``register_kind``.
    ``program``: the program that they are registered for. Default: the main file of the process, if it has one.
    """

    def __init__(
        self,
        connect: str | Connect,
        *,
        schema: str = "uniqueue",
        queues: Sequence[str] | None = None,
        concurrency: int = 10,
        name: str | None = None,
        reserve: float = 60,
        poll: float = 5,
        stop_timeout: float = 25,
        listen: bool = True,
        register: bool = True,
        program: str | None = None,
    ) -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{random.randrange(10**6)}"
        self.concurrency = concurrency
        self._schema, self._queues = schema, queues
        self._reserve, self._poll, self._stop_timeout = timedelta(seconds=reserve), poll, stop_timeout
        self._listens, self._registers, self._program = listen, register, program
        self._kinds: dict[str, tuple[Function, KindOptions]] = {}
        self._id: UUID | None = None
        self._failure: Exception | None = None
        self._runs: dict[Run, asyncio.Task[None]] = {}
        self._results: list[Recording] = []
        self._wake, self._stopping, self._has_stopped, self._hurry = (asyncio.Event() for _ in range(4))
        self._main = Session(connect, listen)
        self._side = Session(connect, listen, [f"{schema}.job", f"{schema}.control"] if listen else [], self._wake.set)

    def job(self, kind: str, **options: Unpack[KindOptions]) -> Callable[[F], F]:
        """Works a kind with the decorated function, and registers the kind with these options.

        A coroutine function runs in the event loop, any other function in a thread.
        """

        def add(function: F) -> F:
            self._kinds[kind] = (function, options)
            return function

        return add

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, then stops as ``stop`` does. A second signal gives the running jobs back at once."""

        async def until_signal() -> None:
            for number in (signal.SIGTERM, signal.SIGINT):
                with suppress(NotImplementedError):  # Windows has no signal handlers of a loop.
                    asyncio.get_running_loop().add_signal_handler(number, self.stop)
            await self.serve()

        # On Windows too, psycopg needs this loop.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(until_signal())

    def stop(self) -> None:
        """Fetches no more, lets the running jobs end, and gives back those that take longer than ``stop_timeout``.

        A second call gives them back at once. Call it in the event loop.
        """
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        self._wake.set()

    async def serve(self) -> None:
        """Works until ``stop``, or until the database refuses what the worker asks of it."""
        try:
            for kind, (_, options) in self._kinds.items() if self._registers else ():
                await self._main.run(statements.register(self._schema, kind, options, self._program, self.name))
            await self._serve()
            with suppress(psycopg.Error):
                # Otherwise the worker counts as alive until its lease ends.
                await self._main.run(self._call("stop_worker", {"worker": self.name}, ["stop_worker"]))
        finally:
            await self._main.close()
            await self._side.close()

    async def _serve(self) -> None:
        ways = (self._exchange(), self._attend(), self._watch_loop(), self._stopping.wait())
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not self._stopping.is_set():
                self.stop()
            await self._let_jobs_end(tasks[0])
        finally:
            tasks += self._runs.values()
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for failure in (self._failure, *ends):
            if isinstance(failure, Exception):
                raise failure

    # Recording and fetching.

    async def _exchange(self) -> None:
        """Records results and fetches jobs for the free slots, until it is cancelled."""
        queues = self._queues or list(dict.fromkeys(o.get("queue", "default") for _, o in self._kinds.values()))
        asks = {"queues": list(queues), "worker": self.name, "kinds": list(self._kinds), "reserve": self._reserve}
        empty = 0
        while True:
            self._wake.clear()
            batch = next_batch(self._results)
            free = 0
            if self._stopping.is_set():
                self._has_stopped.set()
            else:
                sent = {run for run, _, _ in batch}
                later = {run for run in self._runs if run.locked_for and run.work.done()}
                taken = sum(not (run in later or run in sent and run.work.done()) for run in self._runs)
                free = max(0, min(self.concurrency - taken, MOST_JOBS - len(later)))
            rows = await self._record_and_fetch(batch, {**asks, "count": free, "listens": self._listens})
            for row in rows:
                self._begin(row)
            empty = 0 if rows or batch else empty + 1
            # The first empty answer asks to be notified. A job that came just before that is found by a second fetch.
            if not self._results and (free <= len(rows) or empty > self._listens):
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._poll):
                        await self._wake.wait()

    async def _record_and_fetch(self, batch: Sequence[Recording], asks: dict[str, Any]) -> list[Row]:
        if batch and asks["count"] > 0:
            with suppress(psycopg.Error, Error):  # Then one after the other: neither holds up the other.
                ended, started = await self._main.run(
                    statements.exchange(self._schema, arguments(batch), asks, _STARTED)
                )
                self._settle(batch, ended)
                return started
        if batch:
            await self._finish(batch)
        if asks["count"] > 0:
            try:
                return await self._insist(self._main, self._call("fetch_jobs", asks, _STARTED))
            except (psycopg.Error, Error) as error:
                # The worker stops. Runs that are under way can still end.
                self._failure = error
                self.stop()
        return []

    def _begin(self, row: Row) -> None:
        function, options = self._kinds[row["kind"]]
        self._id = row["worker_id"]
        run = Run(Job(**{name: row[name] for name in _FETCHED}), function, options.get("timeout", row.get("timeout")))
        self._runs[run] = asyncio.create_task(self._work(run))

    async def _work(self, run: Run) -> None:
        done, _ = await asyncio.wait([run.work], timeout=run.timeout)
        if not done:
            run.stop()
        if run.is_held and not run.is_recording:
            await self._record(run, verdict_of(run) if done else timed_out(run))
        # A function that was told to stop keeps its slot until it returns.
        await asyncio.wait([run.work])
        if self._runs.pop(run, None):
            self._wake.set()

    def _record(self, run: Run, verdict: Verdict) -> asyncio.Future[None]:
        """Records the end of a run, together with those that end at the same time."""
        run.is_recording = True
        recorded = asyncio.get_running_loop().create_future()
        self._results.append((run, verdict, recorded))
        self._wake.set()
        return recorded

    async def _finish(self, batch: Sequence[Recording]) -> None:
        try:
            finish = self._call("finish_jobs", arguments(batch), statements.ENDED)
            rows = await self._insist(self._main, finish, is_of_jobs=True)
        except (psycopg.Error, Error) as error:
            if isinstance(error, psycopg.errors.SyntaxErrorOrAccessRuleViolation | psycopg.errors.InvalidSchemaName):
                raise
            # A result that the database refuses does not hold up the others. A trigger may let it pass later.
            if len(batch) > 1:
                for result in batch:
                    await self._finish([result])
            else:
                log.warning("the result of job %s is refused: %s", batch[0][0].job.id, error)
                is_of_values = isinstance(error, psycopg.DataError | InvalidArgument)
                self._send_later(batch[0], failed(f"the result is refused: {error}") if is_of_values else None)
            return
        self._settle(batch, rows)

    def _settle(self, batch: Sequence[Recording], rows: Sequence[Row]) -> None:
        """Frees the slots of runs whose results are recorded."""
        settled = {run for run, _, _ in batch}
        self._results = [result for result in self._results if result[0] not in settled]
        for result, row in zip(batch, rows, strict=True):
            run, _, recorded = result
            if row["locked"]:
                self._send_later(result)
                continue
            warn_of_dropped(run.job, row["not_stored"])
            run.is_held = False
            if run.work.done():
                self._runs.pop(run, None)
            if not recorded.done():
                recorded.set_result(None)
            if not row["counted"] and not (run.job._is_completed and row["state"] == "completed"):
                log.info("the result of job %s does not count: the job is %s", run.job.id, row["state"] or "gone")

    def _send_later(self, result: Recording, instead: Verdict | None = None) -> None:
        """Sends a result again that the database did not record. Its job keeps no slot once its function has returned."""
        run, verdict, recorded = result
        run.locked_for = min(2 * run.locked_for or 0.1, _LONGEST_BACKOFF)
        self._results = [other for other in self._results if other is not result]

        def again() -> None:
            self._results.append((run, instead or verdict, recorded))
            self._wake.set()

        asyncio.get_running_loop().call_later(run.locked_for, again)

    async def _let_jobs_end(self, exchanging: asyncio.Task[None]) -> None:
        """Waits for the running jobs, and gives back those that take too long."""

        async def all_end() -> None:
            await self._has_stopped.wait()  # The last fetch has answered.
            while self._runs:
                await asyncio.wait(self._runs.values())

        ways: list[asyncio.Future[Any]] = [asyncio.ensure_future(end) for end in (all_end(), self._hurry.wait())]
        await asyncio.wait([*ways, exchanging], timeout=self._stop_timeout, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for run in [run for run in self._runs if run.is_held and not run.is_recording]:
            self._record(run, INTERRUPT)
        for run in self._runs:
            run.stop()
        if self._results:
            await asyncio.wait([recorded for _, _, recorded in self._results], timeout=_LONGEST_BACKOFF)

    # Beside the work.

    async def _attend(self) -> None:
        """Listens, extends reservations and does maintenance."""
        maintain_at = extend_at = time.monotonic()
        while True:
            if time.monotonic() >= maintain_at:
                [row] = await self._insist(self._side, self._call("maintain", {"worker": self.name}, ["next_in"]))
                maintain_at = time.monotonic() + row["next_in"].total_seconds()
            if time.monotonic() >= extend_at:
                await self._extend()
                extend_at = time.monotonic() + self._reserve.total_seconds() / 3
            rest = max(0, min(maintain_at, extend_at) - time.monotonic())
            if await self._is_told(rest):
                extend_at = time.monotonic()

    async def _watch_loop(self) -> None:
        """Logs when the event loop stood still, as it does while a coroutine blocks it."""
        interval = self._reserve.total_seconds() / 6
        while True:
            due_at = time.monotonic() + interval
            await asyncio.sleep(interval)
            late = time.monotonic() - due_at
            if late > 2 * interval:
                log.warning(
                    "the event loop stood still for %.1f s, without heartbeats. Jobs whose reservation ended start again. A coroutine"
                    " that blocks the loop should be a plain function.",
                    late,
                )

    async def _is_told(self, seconds: float) -> bool:
        """Waits, and answers whether one of the running jobs was taken away meanwhile. Wakes the fetch for new jobs."""
        if not self._listens:
            await asyncio.sleep(seconds)
            return False
        told = False
        with suppress(psycopg.OperationalError):  # The next call opens the connection anew.
            async for notification in (await self._side.open()).notifies(timeout=seconds, stop_after=1):
                if notification.channel.endswith(".job"):
                    self._wake.set()
                told = told or notification.payload == str(self._id)
        return told

    async def _extend(self) -> None:
        held = [run for run in self._runs if run.is_held]
        if not held:
            return
        given: dict[str, Any] = {
            "ids": [run.job.id for run in held],
            "runs": [run.job.run for run in held],
            "reserve": self._reserve,
            "progress": [progress_of(run) for run in held],
        }
        rows = await self._insist(self._side, self._call("extend_jobs", given, ("held", "state", "not_stored")))
        for run, row, sent in zip(held, rows, given["progress"], strict=True):
            if row["not_stored"]:
                run.dropped = sent
                warn_of_dropped(run.job, row["not_stored"])
            if run.job._is_completed and row["state"] == "completed":
                continue
            if run.is_held and not row["held"] and not run.is_recording:
                log.warning("job %s is stopped: it is %s", run.job.id, row["state"] or "deleted")
                run.is_held = False
                run.stop()

    def _call(self, function: str, given: dict[str, Any], columns: Iterable[str]) -> Statement[list[Row]]:
        return statements.call(self._schema, function, given, tuple(columns), lambda rows: rows)

    async def _insist(self, session: Session, statement: Statement[T], *, is_of_jobs: bool = False) -> T:
        """Runs a statement, again and again while the database is away. ``is_of_jobs``: it may fail because of one of its jobs."""
        backoff = 0.1
        while True:
            try:
                return await session.run(statement)
            except (psycopg.ProgrammingError, psycopg.DataError, psycopg.IntegrityError):
                raise
            except (psycopg.Error, Busy) as error:
                if is_of_jobs and not is_of_the_time(error):
                    raise
                log.warning("the database did not answer, trying again: %s", error)
            await asyncio.sleep(backoff * random.uniform(0.5, 1))
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
