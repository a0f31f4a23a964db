"""A job at work."""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from .job import Json
from .outcome import Stopped

Args = TypeVar("Args")


@dataclass(slots=True, eq=False)
class Job(Generic[Args]):
    """The job that a function works on."""

    id: UUID
    run: int
    """The number of this run. What is said of another run of the job does not count."""
    kind: str
    queue: str
    args: Args
    meta: dict[str, Json]
    attempt: int
    """The number of this attempt, from 1."""
    max_attempts: int
    errors: list[dict[str, Json]]
    """The errors of earlier attempts, the oldest first: ``attempt``, ``at`` and ``error``."""
    progress: Json
    """What the job reports of itself, such as ``{"done": 3, "total": 10}``. Set it: the next heartbeat sends it."""
    created_at: datetime
    scheduled_at: datetime
    unique_key: str | None
    group_key: str | None
    _stopped: threading.Event = field(default_factory=threading.Event, repr=False)
    _is_completed: bool = field(default=False, repr=False)

    @property
    def stopped(self) -> bool:
        """Whether the work is to stop: the job was cancelled, timed out or is given back.

        A coroutine is cancelled then. A function in a thread has to ask.
        """
        return self._stopped.is_set()

    def check(self) -> None:
        """Raises ``Stopped`` where the work is to stop. Call it now and then in a long function."""
        if self.stopped:
            raise Stopped(f"job {self.id} was stopped")

    def sleep(self, seconds: float) -> None:
        """Sleeps in a thread. Raises ``Stopped`` as soon as the work is to stop."""
        self._stopped.wait(seconds)
        self.check()


def warn_of_dropped(job: Job[Any], values: str | None) -> None:
    """Logs the values of the job that PostgreSQL could not store."""
    if values:
        logging.getLogger("uniqueue").warning("job %s (%s) goes on without values: %s", job.id, job.kind, values)


Function = Callable[[Job[Any]], Any]


class Run:
    """A job from its fetch until its function has returned and its result is recorded."""

    def __init__(self, job: Job[Any], function: Function, timeout: timedelta | None) -> None:
        self.job = job
        self.timeout = timeout.total_seconds() if timeout else None
        self.dropped: str | None = None
        """The progress that the database could not store, as JSON."""
        self.locked_for = 0.0
        """How many seconds its result waits to be sent again. 0: the database did not refuse it."""
        self.is_held = True
        """Whether the job is reserved for this run, so that its result counts."""
        self.is_recording = False
        """Whether its result waits to be recorded."""
        self.work: asyncio.Future[Any] = (
            asyncio.ensure_future(_in_loop(function, job)) if _is_coroutine(function) else _in_thread(function, job)
        )
        """What the function returns or raises. The future itself never fails, whatever that is: the loop ends by a ``SystemExit``."""

    def stop(self) -> None:
        """Tells the function to stop."""
        self.job._stopped.set()
        if isinstance(self.work, asyncio.Task):
            self.work.cancel()


def _is_coroutine(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def _in_loop(function: Function, job: Job[Any]) -> Any:
    try:
        return await function(job)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error


def _in_thread(function: Function, job: Job[Any]) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def work() -> None:
        end: object
        try:
            end = context.run(function, job)
        except BaseException as error:
            end = error
        with suppress(RuntimeError):  # The loop has ended without waiting for this function.
            loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(end))

    try:
        # A daemon, unlike the threads of an executor: a function that hangs does not keep the process from ending.
        threading.Thread(target=work, name=f"job {job.id}", daemon=True).start()
    except RuntimeError as error:
        future.set_result(error)
    return future
