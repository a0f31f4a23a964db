"""The database of the tests: that of DATABASE_URL, with uniqueue's schema."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import psycopg

from uniqueue import Worker

URL = os.environ["DATABASE_URL"]

LONG = 20.0
"""For how many seconds a test waits for what should happen at once."""

_names = count(1)


def new_name() -> str:
    """The name of a queue or a kind that no other test has."""
    return f"py.{os.getpid()}.{next(_names)}"


def connect(**options: Any) -> psycopg.Connection[Any]:
    return psycopg.connect(URL, autocommit=True, **options)


def one(text: str, *parameters: object) -> Any:
    """The only column of the only row."""
    with connect() as connection:
        row = connection.execute(text.encode(), parameters).fetchone()
    assert row is not None, text
    return row[0]


def row_of(id: object) -> dict[str, Any]:
    with connect(row_factory=psycopg.rows.dict_row) as connection:
        row = connection.execute(
            "SELECT state::text AS state, attempt, output, progress, scheduled_at > clock_timestamp() AS is_due_later,"
            " errors -> -1 ->> 'error' AS error FROM uniqueue.job WHERE id = %s",
            [id],
        ).fetchone()
    assert row is not None, id
    return dict(row)


async def until(holds: Callable[[], bool]) -> None:
    """Waits until this is so."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < LONG, "it never holds"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    """Lets a worker work, and stops it in the end."""
    serving = asyncio.create_task(worker.serve())
    try:
        yield
    finally:
        worker.stop()
        await asyncio.wait_for(serving, LONG)
