"""Inserting jobs, asking about keys, and waiting for results."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, Protocol, TypeVar, Unpack
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from . import statements
from .errors import Busy, Error, Stale, WaitTimeout, translated
from .job import Explanation, Inserted, JobOptions, Json, KeyOptions, KindOptions, NewJob, Parent, Result
from .running import Job, warn_of_dropped
from .statements import Row, Statement

T = TypeVar("T")

_FIRST_INTERVAL = 0.025
_LONGEST_INTERVAL = 1.0


class Pool(Protocol):
    """What a client needs of ``psycopg_pool.ConnectionPool``."""

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]: ...


class AsyncPool(Protocol):
    """What a client needs of ``psycopg_pool.AsyncConnectionPool``."""

    def connection(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]: ...


class Client:
    """Inserts jobs over a connection, a cursor or a pool of psycopg.

    Over a connection or a cursor, each call is part of the connection's transaction: the job exists once you commit. Over a
    pool, each call is a transaction of its own.

    ``program``: the program that ``register`` registers kinds for. Default: the main file of the process, if it has one.
    """

    def __init__(
        self,
        source: psycopg.Connection[Any] | psycopg.Cursor[Any] | Pool,
        *,
        schema: str = "uniqueue",
        program: str | None = None,
    ) -> None:
        self._source = source.connection if isinstance(source, psycopg.Cursor) else source
        self.schema, self.program = schema, program

    def on(self, source: psycopg.Connection[Any] | psycopg.Cursor[Any] | Pool) -> "Client":
        """The same queue over another connection: ``client.on(connection).insert(…)``."""
        return Client(source, schema=self.schema, program=self.program)

    def insert(
        self, kind: str, args: Json = {}, *, max_wait: timedelta | None = None, **options: Unpack[JobOptions]
    ) -> Inserted:
        """Inserts a job, or answers with the holder of its key.

        ``max_wait`` bounds the wait for another open transaction with the same key. Default: PostgreSQL's
        ``lock_timeout``.

        Raises ``Rejected``, ``Busy``, ``QueueFull``, ``IdTaken`` or ``InvalidArgument``.
        """
        return self._run(statements.insert(self.schema, kind, args, options, max_wait))

    def insert_many(self, jobs: Iterable[NewJob], *, max_wait: timedelta | None = None) -> list[Inserted]:
        """Inserts jobs in one call, all or none. There is one answer for each job, in their order."""
        return self._run(statements.insert_many(self.schema, jobs, max_wait))

    def explain(self, kind: str, args: Json = {}, **options: Unpack[KeyOptions]) -> Explanation:
        """What an insert would do, and why. Writes nothing and locks nothing."""
        return self._run(statements.explain(self.schema, kind, args, options))

    def unique_key(self, kind: str, args: Json = {}, **options: Unpack[KeyOptions]) -> str | None:
        """The key that a job would get. ``None``: it would not be unique."""
        return self._run(statements.unique_key(self.schema, kind, args, options))

    def register(self, kind: str, **options: Unpack[KindOptions]) -> None:
        """Registers a kind: from now on inserts in every language take these defaults.

        They replace what the same program registered before. What other programs registered stays, unless it is given anew.
        """
        self._run(statements.register(self.schema, kind, options, self.program))

    def parents(self, id: UUID) -> list[Parent]:
        """The jobs that a job runs after, with their outputs. Needs the right to read the tables ``job`` and ``job_parent``."""
        return self._run(statements.parents(self.schema, id))

    def complete(self, job: Job[Any], output: Json = None) -> None:
        """Completes the job at work in the transaction of its effects: both commit, or neither does.

        Return from the function after the commit. Raises ``Stale`` where this run does not count any more, and ``Busy`` where
        another transaction has the job locked: roll back.
        """
        _mark_completed(job, self._run(statements.complete(self.schema, job.id, job.run, output)))

    def wait(self, id: UUID, *, timeout: float | None = None) -> Result:
        """Waits until a job is final. ``timeout`` is in seconds; by default there is none.

        Wait after the commit of the insert. Raises ``WaitTimeout``.
        """
        return self.wait_all([id], timeout=timeout)[0]

    def wait_all(self, ids: Iterable[UUID], *, timeout: float | None = None) -> list[Result]:
        """Waits until all these jobs are final, with one query at a time for all of them."""
        waiting = _Waiting(ids, timeout)
        while waiting.remaining:
            with self._connection() as connection:
                _must_be_idle(connection)
                with connection.transaction():
                    waiting.take(_fetch(connection, statements.results(self.schema, waiting.remaining)))
            if waiting.remaining:
                time.sleep(waiting.interval())
        return waiting.results()

    def _run(self, statement: Statement[T]) -> T:
        with self._connection() as connection:
            return _fetch(connection, statement)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        if isinstance(self._source, psycopg.Connection):
            yield self._source
        else:
            with self._source.connection() as connection:
                yield connection


class AsyncClient:
    """``Client`` for ``psycopg.AsyncConnection``, ``AsyncCursor`` and ``psycopg_pool.AsyncConnectionPool``."""

    def __init__(
        self,
        source: psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any] | AsyncPool,
        *,
        schema: str = "uniqueue",
        program: str | None = None,
    ) -> None:
        self._source = source.connection if isinstance(source, psycopg.AsyncCursor) else source
        self.schema, self.program = schema, program

    def on(self, source: psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any] | AsyncPool) -> "AsyncClient":
        """As ``Client.on``."""
        return AsyncClient(source, schema=self.schema, program=self.program)

    async def insert(
        self, kind: str, args: Json = {}, *, max_wait: timedelta | None = None, **options: Unpack[JobOptions]
    ) -> Inserted:
        """As ``Client.insert``."""
        return await self._run(statements.insert(self.schema, kind, args, options, max_wait))

    async def insert_many(self, jobs: Iterable[NewJob], *, max_wait: timedelta | None = None) -> list[Inserted]:
        """As ``Client.insert_many``."""
        return await self._run(statements.insert_many(self.schema, jobs, max_wait))

    async def explain(self, kind: str, args: Json = {}, **options: Unpack[KeyOptions]) -> Explanation:
        """As ``Client.explain``."""
        return await self._run(statements.explain(self.schema, kind, args, options))

    async def unique_key(self, kind: str, args: Json = {}, **options: Unpack[KeyOptions]) -> str | None:
        """As ``Client.unique_key``."""
        return await self._run(statements.unique_key(self.schema, kind, args, options))

    async def register(self, kind: str, **options: Unpack[KindOptions]) -> None:
        """As ``Client.register``."""
        await self._run(statements.register(self.schema, kind, options, self.program))

    async def parents(self, id: UUID) -> list[Parent]:
        """As ``Client.parents``."""
        return await self._run(statements.parents(self.schema, id))

    async def complete(self, job: Job[Any], output: Json = None) -> None:
        """As ``Client.complete``."""
        _mark_completed(job, await self._run(statements.complete(self.schema, job.id, job.run, output)))

    async def wait(self, id: UUID, *, timeout: float | None = None) -> Result:
        """As ``Client.wait``."""
        return (await self.wait_all([id], timeout=timeout))[0]

    async def wait_all(self, ids: Iterable[UUID], *, timeout: float | None = None) -> list[Result]:
        """As ``Client.wait_all``."""
        waiting = _Waiting(ids, timeout)
        while waiting.remaining:
            async with self._connection() as connection:
                _must_be_idle(connection)
                async with connection.transaction():
                    found = await fetch_async(connection, statements.results(self.schema, waiting.remaining))
            waiting.take(found)
            if waiting.remaining:
                await asyncio.sleep(waiting.interval())
        return waiting.results()

    async def _run(self, statement: Statement[T]) -> T:
        async with self._connection() as connection:
            return await fetch_async(connection, statement)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        if isinstance(self._source, psycopg.AsyncConnection):
            yield self._source
        else:
            async with self._source.connection() as connection:
                yield connection


def _fetch(connection: psycopg.Connection[Any], statement: Statement[T]) -> T:
    with translated(), connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(statement.text, statement.parameters)
        rows = cursor.fetchall()
    return statement.read(list(rows))


async def fetch_async(connection: psycopg.AsyncConnection[Any], statement: Statement[T]) -> T:
    """Runs a statement, and reads its rows."""
    with translated():
        async with connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(statement.text, statement.parameters)
            rows = await cursor.fetchall()
    return statement.read(list(rows))


def _mark_completed(job: Job[Any], row: Row) -> None:
    if row["locked"]:
        raise Busy(f"job {job.id} is locked by another transaction")
    warn_of_dropped(job, row["not_stored"])
    if not row["counted"]:
        raise Stale(f"job {job.id} was taken from this run: its effects must not be committed")
    job._is_completed = True


def _must_be_idle(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    # A job of this transaction does not start before the commit, and a snapshot may never see it end.
    if connection.info.transaction_status != TransactionStatus.IDLE:
        raise Error("cannot wait for a job in a transaction: commit first")


class _Waiting:
    """The jobs that a wait still has no answer for."""

    def __init__(self, ids: Iterable[UUID], timeout: float | None) -> None:
        self._ids = list(ids)
        self._found: dict[UUID, Result] = {}
        self._until = None if timeout is None else time.monotonic() + timeout
        self._interval = _FIRST_INTERVAL
        self.remaining = list(dict.fromkeys(self._ids))

    def take(self, found: list[Result]) -> None:
        self._found.update((result.id, result) for result in found)
        self.remaining = [id for id in self.remaining if id not in self._found]

    def interval(self) -> float:
        """How long to wait before the next question."""
        left = float("inf") if self._until is None else self._until - time.monotonic()
        if left <= 0:
            raise WaitTimeout(f"not final in time: {', '.join(str(id) for id in self.remaining)}")
        interval = min(self._interval, left)
        self._interval = min(self._interval * 1.5, _LONGEST_INTERVAL)
        return interval

    def results(self) -> list[Result]:
        return [self._found[id] for id in self._ids]
