"""Unique policies: how a job's key is made and claimed, and what a duplicate does.

A policy is a JSON document, which the database reads. These types name its members for editors and type checkers.
"""

from typing import Literal, TypedDict

State = Literal["available", "cancelled", "completed", "discarded", "pending", "retryable", "running", "scheduled"]


class Update(TypedDict, total=False):
    """What a duplicate changes of a holder that waits."""

    args: Literal["latest", "merge", "append"]
    """How the args of the holder change. Default: they become those of the newcomer."""
    schedule: Literal["keep", "push"]
    """``push`` moves the holder's time to the newcomer's: debounce. It needs ``max_delay``. Default: ``keep``."""
    max_delay: str
    """How long after its creation the holder runs at the latest, as an ISO 8601 duration."""
    max_items: int
    """The most items of an array with ``append``, 1 to 1,000,000. Default: 1,000."""


class UniquePolicy(TypedDict, total=False):
    """A unique policy. ``{"keys": ["args"]}`` allows one job at a time for each kind and args."""

    keys: list[Literal["type", "queue", "args", "meta"]]
    """The parts of the job that make the key. The type, which is the kind, is always one of them."""
    args_keys: list[str]
    """The members of the args that count, by name or JSON Pointer. Default: all."""
    optional_args_keys: list[str]
    """Members of the args that count where the job has them."""
    meta_keys: list[str]
    """The members of the meta that count. They may be missing."""
    exclude_type: bool
    """Leaves the kind out of the key, so that kinds share it."""
    window: str
    """A length of time whose current window is part of the key, such as ``P1D`` for once in a day."""
    key: str
    """A key of your own, 1 to 512 bytes, which stands alone."""
    like: Literal["faktory", "ojs", "river", "zizq"]
    """The defaults of another queue. ``faktory`` needs a ``ttl``."""
    scope: Literal["queued", "active", "completed", "exists"]
    """In which states a job claims its key. Default: ``active``, until it is final."""
    states: list[State | Literal["active"]]
    """The same, state by state."""
    until: Literal["start", "success"]
    """Ends the claim when a worker fetches the job, or when it has completed."""
    period: str
    """Ends the claim this long after the job was created, as an ISO 8601 duration such as ``PT1H``."""
    ttl: str
    """Ends the claim this long after the job was created or is due, whichever is later."""
    on_conflict: Literal["ignore", "reject", "replace", "replace_except_schedule", "preempt", "update", "run_again"]
    """What a duplicate does. Default: ``ignore``, which answers with the holder."""
    update: Update
    """What ``update`` changes. It implies ``"on_conflict": "update"``."""
    on_reentry: Literal["go_on", "discard"]
    """What becomes of a job that comes back and finds its key taken. Default: it goes on without the claim."""
