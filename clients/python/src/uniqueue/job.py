"""What an insert takes, and what the answers contain."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

from .policy import State, UniquePolicy

Json = Any
"""Anything that ``json.dumps`` takes."""


class KeyOptions(TypedDict, total=False):
    """What a job's unique key can be made from, besides its kind and args.

    An option that is left out, or ``None``, has the default of the job's kind, where the kind is registered, or else the one
    given here. Only ``None`` as a policy says something: it gives up that of the kind.
    """

    queue: str | None
    """The queue. Default: ``default``."""
    meta: dict[str, Json] | None
    """Data about the job, such as a trace id."""
    scheduled_at: datetime | None
    """The earliest time at which the job may run, with its time zone. Default: now."""
    unique: UniquePolicy | None
    """How the job's key is made and claimed, and what a duplicate does. Default: the job is not unique."""


class JobOptions(KeyOptions, total=False):
    """What a job may say besides its kind and args."""

    priority: int | None
    """Higher runs first, -32,768 to 32,767. Default: 0."""
    max_attempts: int | None
    """How often the job is tried before it is discarded, 1 to 32,767. Default: 25."""
    id: UUID | str | None
    """An id of your own, a UUIDv7. The insert of an id that exists returns the existing job, so it is safe to send twice."""
    pending: bool | None
    """Holds the job back until ``release_jobs``. Default: ``False``."""
    group_key: str | None
    """The group of the job within its queue, 1 to 512 bytes."""
    group_limit: int | None
    """The job starts only while fewer jobs of its group run."""
    in_order: bool | None
    """Runs the jobs of the group one at a time, in their order. Default: ``False``."""
    group_policy: UniquePolicy | None
    """A policy that makes the group's key from the job."""
    expires_at: datetime | None
    """The job is discarded if it has not started by this time. The time needs a time zone. Default: it does not expire."""
    expires_in: timedelta | None
    """The same, as a time from when the job is due."""
    after: Sequence[UUID | str | int] | None
    """Jobs that must be completed first. If one of them is cancelled or discarded, this job is cancelled.

    The job is pending until they have ended. In ``insert_many`` a number is the index of an earlier job of the batch.
    """
    after_final: Sequence[UUID | str | int] | None
    """Jobs that must have ended first, in any final state."""
    after_failed: Sequence[UUID | str | int] | None
    """Jobs that must have ended first, at least one cancelled or discarded. If all are completed, this job is cancelled."""


class Backoff(TypedDict, total=False):
    """After attempt *n* a job waits ``first * factor ** (n - 1)``, at most ``max_interval``, plus or minus ``jitter`` of it."""

    first: str
    """Such as ``10s`` or ``PT10S``. Default: ``1s``."""
    factor: float
    """From 1. Default: 2."""
    max_interval: str
    """Default: ``1h``, or ``first`` where that is longer; none with a ``factor`` of 1."""
    jitter: float
    """From 0 to 1. Default: 0.1; 0 with a ``factor`` of 1."""


class KindOptions(TypedDict, total=False):
    """The registration of a kind: the defaults that inserts in every language take."""

    queue: str
    """The queue of its jobs. Default: ``default``."""
    priority: int
    max_attempts: int
    delay: timedelta
    """How long after the insert its jobs are due. Default: at once."""
    timeout: timedelta
    """How long a job may run. Default: as long as it takes."""
    backoff: Backoff
    """How long a failed job waits for its retry. Default: 1 s, doubling with each attempt up to an hour."""
    unique: UniquePolicy
    """Its unique policy. Default: its jobs are not unique."""
    group_policy: UniquePolicy
    """The policy that makes the keys of their groups. Default: they have no group."""
    group_limit: int
    """How many jobs of a group may run at once."""
    in_order: bool
    """Runs the jobs of a group one at a time, in their order."""
    expires_in: timedelta
    """How long after they are due its jobs are discarded if they have not started. Default: never."""


class NewJob(JobOptions):
    """A job of ``insert_many``."""

    kind: str
    args: NotRequired[Json]
    """The payload. Default: ``{}``."""


Outcome = Literal["inserted", "duplicate", "updated", "covered", "rejected"]


@dataclass(frozen=True, slots=True)
class Inserted:
    """The answer of an insert: the new job, or the holder of its key."""

    id: UUID
    state: State
    duplicate: bool
    """Nothing was inserted: the other members are those of the holder."""
    outcome: Outcome
    replaced: UUID | None
    """The job that this one replaced."""
    unique_key: str | None


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a job."""

    id: UUID
    state: State | None
    """``completed``, ``cancelled`` or ``discarded``. ``None``: no such job exists, so its outcome is unknown."""
    output: Json
    """What a job that completed returned."""
    error: str | None
    """The last error, or the reason, of a job that did not complete."""
    replaced_by: UUID | None
    """The job that replaced this one."""


@dataclass(frozen=True, slots=True)
class Parent:
    """A parent of a job."""

    id: UUID
    kind: str | None
    """``None``: the job is deleted, and so are its state and output."""
    state: State | None
    condition: Literal["completed", "final", "failed"]
    """In which list the job named it: ``after``, ``after_final`` or ``after_failed``."""
    outcome: State | None
    """The final state that counts for the job. ``None``: the job still waits for this parent."""
    output: Json
    """The output, if the parent completed with one."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an insert would do, and why."""

    outcome: Outcome
    unique_key: str | None
    canonical: str | None
    """The text that the key is made from."""
    holder: UUID | None
    """The job that claims the key."""
    holder_state: State | None
    holder_age: timedelta | None
    claims_in: list[State] | None
    """The states in which the holder claims the key."""
    frees: str | None
    """When the holder's claim ends, in words."""
    replaced: UUID | None
    new_args: Json
    """What an update would make of the holder's args."""
    new_scheduled_at: datetime | None
