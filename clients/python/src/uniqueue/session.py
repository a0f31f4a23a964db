"""A connection that a worker keeps."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg.sql import SQL, Identifier

from .client import fetch_async
from .statements import Statement

T = TypeVar("T")
Connect = Callable[[], Awaitable[psycopg.AsyncConnection[Any]]]

# A connection that froze is noticed within half a minute.
_KEEPALIVES: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


class Session:
    """A connection that opens when it is used, and anew after it broke. Each statement is a transaction of its own.

    ``prepares``: whether it prepares statements, which PgBouncer before 1.21 does not keep apart.
    ``listening`` is called when it has begun to listen. Earlier notifications are lost.
    """

    def __init__(
        self,
        connect: str | Connect,
        prepares: bool,
        channels: Sequence[str] = (),
        listening: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect, self._prepares = connect, prepares
        self._channels, self._listening = channels, listening
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> psycopg.AsyncConnection[Any]:
        """The connection, which listens to the channels."""
        async with self._opening:
            if self._connection is None or self._connection.closed:
                connection = await self._new()
                await connection.set_autocommit(True)
                if not self._prepares:
                    connection.prepare_threshold = None
                for channel in self._channels:
                    await connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
                self._connection = connection
                self._listening()
            return self._connection

    async def run(self, statement: Statement[T]) -> T:
        connection = await self.open()
        try:
            return await fetch_async(connection, statement)
        except psycopg.errors.FeatureNotSupported:
            # "cached plan must not change result type", after a migration. A new connection has no plans.
            await connection.close()
            raise

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _new(self) -> psycopg.AsyncConnection[Any]:
        if isinstance(self._connect, str):
            return await psycopg.AsyncConnection.connect(self._connect, **_KEEPALIVES)
        return await self._connect()
