"""Unique jobs in PostgreSQL, inserted in your own transactions."""

from .client import AsyncClient, Client
from .errors import Busy, Error, IdTaken, InvalidArgument, QueueFull, Rejected, Rejection, Stale, UnknownParent, WaitTimeout
from .job import Backoff, Explanation, Inserted, JobOptions, KeyOptions, KindOptions, NewJob, Parent, Result
from .outcome import Cancel, Discard, Outcome, Retry, Snooze, Stopped
from .policy import State, UniquePolicy, Update
from .running import Job
from .worker import Worker

__all__ = [
    "AsyncClient",
    "Backoff",
    "Busy",
    "Cancel",
    "Client",
    "Discard",
    "Error",
    "Explanation",
    "IdTaken",
    "Inserted",
    "InvalidArgument",
    "Job",
    "JobOptions",
    "KeyOptions",
    "KindOptions",
    "NewJob",
    "Outcome",
    "Parent",
    "QueueFull",
    "Rejected",
    "Rejection",
    "Result",
    "Retry",
    "Snooze",
    "Stale",
    "State",
    "Stopped",
    "UniquePolicy",
    "UnknownParent",
    "Update",
    "WaitTimeout",
    "Worker",
]
