"""How a job ends.

A function that returns has completed its job, and what it returns is the job's output. A function that raises is tried
again. The outcomes below say something else: return one, or raise it.
"""

import traceback
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from .statements import dumps


class Outcome(Exception):
    """An end of a job other than success or failure."""

    def __init__(
        self, reason: str | None, delay: timedelta | float | None = None, code: str | None = None
    ) -> None:
        super().__init__(*[] if reason is None else [reason])
        self.reason, self.code = reason, code
        self.delay = timedelta(seconds=delay) if isinstance(delay, int | float) else delay
        if self.delay is not None and not timedelta(0) <= self.delay <= timedelta(days=360_000):
            raise ValueError(f"invalid delay: must be 0 to 360,000 days: {delay}")


class Retry(Outcome):
    """Tries the job again, or discards it where no attempt is left.

    ``after`` is a time or a number of seconds. Default: 1 s, doubling with each attempt up to an hour. ``code`` is a short word
    that is stored with the reason.
    """

    def __init__(self, reason: str, *, after: timedelta | float | None = None, code: str | None = None) -> None:
        super().__init__(reason, after, code)


class Snooze(Outcome):
    """Runs the job again after a time, or a number of seconds. Uses up no attempt."""

    def __init__(self, after: timedelta | float) -> None:
        super().__init__(None, after)


class Cancel(Outcome):
    """Cancels the job: the work is no longer wanted."""

    def __init__(self, reason: str, *, code: str | None = None) -> None:
        super().__init__(reason, None, code)


class Discard(Outcome):
    """Discards the job: the work cannot succeed."""

    def __init__(self, reason: str, *, code: str | None = None) -> None:
        super().__init__(reason, None, code)


class Stopped(Exception):
    """The job was cancelled, timed out or is given back. What its function does from now on does not count."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a run, as ``finish_jobs`` takes it."""

    outcome: Literal["complete", "retry", "snooze", "cancel", "discard", "interrupt"]
    delay: timedelta | None = None
    error: str | None = None
    output: str | None = None
    details: str | None = None
    """The details that are stored with the error: its ``code``, or the ``type`` of the exception."""


INTERRUPT = Verdict("interrupt")


def failed(error: str, delay: timedelta | None = None, details: str | None = None) -> Verdict:
    """A failed attempt. The text is one that PostgreSQL can store."""
    return Verdict("retry", delay, storable(error), details=details)


def verdict_on(value: object) -> Verdict:
    """What a function returned or raised means."""
    match value:
        case Retry():
            return failed(value.reason or "", value.delay, _details(value))
        case Snooze():
            return Verdict("snooze", value.delay)
        case Cancel():
            return Verdict("cancel", error=storable(value.reason or ""), details=_details(value))
        case Discard():
            return Verdict("discard", error=storable(value.reason or ""), details=_details(value))
        case BaseException():
            return failed(text_of(value), details=dumps({"type": type(value).__name__[:64]}))
        case None:
            return Verdict("complete")
    try:
        return Verdict("complete", output=dumps(value))
    except BaseException as error:  # Such as a RecursionError.
        return failed(f"the output of the job is not JSON: {text_of(error)}")


def _details(outcome: Outcome) -> str | None:
    return None if outcome.code is None else dumps({"code": outcome.code})


def text_of(error: BaseException) -> str:
    """The type and the message of an exception, also of one whose message cannot be made."""
    return "".join(traceback.format_exception_only(error)).strip()


def storable(text: str) -> str:
    """A text without what PostgreSQL cannot store."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
