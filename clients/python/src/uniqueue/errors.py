"""The errors of the queue. Errors of the database that say nothing about a queue stay psycopg's own."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg

from .policy import State


class Error(Exception):
    """An error of the queue."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A duplicate that was rejected."""

    index: int
    """Its place in the batch, from 0."""
    holder: UUID | None
    """The job that claims the key. ``None``: the job that was met is in the batch itself."""
    state: State | None
    """The holder's state."""
    earlier: int | None
    """The place of the job that was met, where it is in the batch itself."""


class Rejected(Error):
    """A duplicate under ``reject``, or one that could not replace or change its holder. Nothing was inserted.

    The transaction stays usable.
    """

    def __init__(self, rejections: Sequence[Rejection]) -> None:
        self.rejections = tuple(rejections)
        """The rejected jobs, in the order of the batch."""
        first = self.rejections[0]
        self.holder, self.state = first.holder, first.state
        met = f"job {first.holder} ({first.state})" if first.holder else f"job {first.earlier} of the same batch"
        others = f", and {len(self.rejections) - 1} more were rejected" if len(self.rejections) > 1 else ""
        super().__init__(f"duplicate: the unique key is held by {met}{others}")


class QueueFull(Error):
    """The queue has as many waiting jobs as its limit allows. Nothing was inserted: try again later."""

    def __init__(self, queue: str, max_waiting: int, room: int) -> None:
        self.queue, self.max_waiting, self.room = queue, max_waiting, room
        super().__init__(f"queue {queue} is full: at most {max_waiting} of its jobs may wait, and it has room for {room}")


class Busy(Error):
    """Another open transaction holds the key, or locks its holder, for longer than ``max_wait``. Try again."""


class IdTaken(Error):
    """Another job has the id that was given."""


class UnknownParent(Error):
    """There is no such job to run after. Nothing was inserted."""


class InvalidArgument(Error, ValueError):
    """An argument, or a member of a policy, is outside its limits. The text names it."""


class Stale(Error):
    """The job was taken from this run: it was cancelled, or came back after its reservation."""


class WaitTimeout(Error, TimeoutError):
    """The job was not final in time. It goes on."""


@contextmanager
def translated() -> Iterator[None]:
    """Raises the errors of the queue in place of the database's."""
    try:
        yield
    except psycopg.Error as error:
        translation = _translation(error)
        if translation is None:
            raise
        raise translation from error


def is_of_the_time(error: Exception) -> bool:
    """Whether the same call can succeed later: the connection, a lock or a resource is at fault, and no job."""
    state = getattr(error, "sqlstate", None)
    return state is None or re.fullmatch("08...|0A000|40...|53...|57...", state) is not None


def _translation(error: psycopg.Error) -> Error | None:
    text = error.diag.message_primary or str(error)
    match error.sqlstate:
        case "UQ003":
            return QueueFull(**json.loads(error.diag.message_detail or "{}"))
        case "55P03":
            return Busy(text)
        case "23505" if error.diag.constraint_name == "job_pkey":
            return IdTaken(text)
        case "23503" if error.diag.constraint_name == "job_parent_parent":
            return UnknownParent(text)
        case "22023":
            return InvalidArgument(text)
    return None
