"""The SQL of the client: the text of each call, its parameters, and how its rows are read.

Nothing here talks to a database, so that the synchronous and the asynchronous client share it.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from psycopg.sql import Identifier
from psycopg.types.json import Jsonb

from .errors import Rejected, Rejection
from .job import Explanation, Inserted, JobOptions, Json, KeyOptions, KindOptions, NewJob, Parent, Result

T = TypeVar("T")
Row = Mapping[str, Any]

_INSERTED = ("id", "state", "duplicate", "outcome", "replaced", "unique_key")
_EXPLAINED = (
    "outcome", "unique_key", "canonical", "holder", "holder_state", "holder_age", "claims_in", "frees", "replaced",
    "new_args", "new_scheduled_at",
)  # fmt: skip
_main = getattr(sys.modules.get("__main__"), "__file__", None) or ""
_MAIN_FILE = os.path.abspath(_main) if os.path.isfile(_main) else None
"""The program that owns what it registers, by default. A text on the command line has none."""
ENDED = ("counted", "state", "locked", "not_stored")
"""The columns of ``finish_jobs`` that are read."""

# The types of the functions' arguments. All others are text.
_TYPES = {
    "after": "uuid[]",
    "after_failed": "uuid[]",
    "after_final": "uuid[]",
    "args": "jsonb",
    "backoff": "jsonb",
    "count": "integer",
    "delay": "interval",
    "delays": "interval[]",
    "error_details": "text[]",
    "errors": "text[]",
    "expires_at": "timestamptz",
    "expires_in": "interval",
    "group_limit": "integer",
    "group_policy": "jsonb",
    "id": "uuid",
    "ids": "uuid[]",
    "in_order": "boolean",
    "jobs": "jsonb",
    "kinds": "text[]",
    "listens": "boolean",
    "max_attempts": "integer",
    "max_wait": "interval",
    "meta": "jsonb",
    "outcomes": "text[]",
    "outputs": "text[]",
    "pending": "boolean",
    "priority": "integer",
    "progress": "text[]",
    "queues": "text[]",
    "reserve": "interval",
    "runs": "integer[]",
    "scheduled_at": "timestamptz",
    "timeout": "interval",
    "unique_policy": "jsonb",
}


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """One call of the database."""

    text: bytes
    parameters: Sequence[object]
    read: Callable[[list[Row]], T]


def insert(
    schema: str, kind: str, args: Json, options: JobOptions, max_wait: timedelta | None
) -> Statement[Inserted]:
    # A row and not an error, so that the transaction stays usable.
    given = {"kind": kind, "args": args, **_document(options), "max_wait": max_wait, "on_reject": "row"}
    return call(schema, "insert_job", given, _INSERTED, lambda rows: _inserted(rows)[0])


def insert_many(schema: str, jobs: Iterable[NewJob], max_wait: timedelta | None) -> Statement[list[Inserted]]:
    given = {"jobs": [_document(job) for job in jobs], "max_wait": max_wait, "on_reject": "row"}
    return call(schema, "insert_jobs", given, ("index", *_INSERTED, "earlier"), _inserted)


def explain(schema: str, kind: str, args: Json, options: KeyOptions) -> Statement[Explanation]:
    given = {"kind": kind, "args": args, **_document(options)}
    return call(schema, "explain_unique", given, _EXPLAINED, lambda rows: Explanation(**rows[0]))


def unique_key(schema: str, kind: str, args: Json, options: KeyOptions) -> Statement[str | None]:
    given = {"kind": kind, "args": args, **_document(options)}
    return call(schema, "unique_key", given, ("unique_key",), lambda rows: cast("str | None", rows[0]["unique_key"]))


def register(
    schema: str, kind: str, options: KindOptions, program: str | None, registered_by: str | None = None
) -> Statement[None]:
    """Registers a kind. ``program``: by default the main file of the process."""
    given = {"kind": kind, **_document(options), "registered_by": registered_by, "program": program or _MAIN_FILE}
    return call(schema, "register_kind", given, ("name",), lambda rows: None)


def complete(schema: str, id: UUID, run: int, output: Json) -> Statement[Row]:
    """Completes a run. Its row is that of ``finish_jobs``."""
    given = {"ids": [id], "runs": [run], "outputs": None if output is None else [dumps(output)]}
    return call(schema, "complete_jobs", given, ENDED, lambda rows: rows[0])


def parents(schema: str, id: UUID) -> Statement[list[Parent]]:
    columns = ("id", "kind", "state", "condition", "outcome", "output")
    return call(schema, "parents_of", {"id": id}, columns, lambda rows: [Parent(**row) for row in rows])


def results(schema: str, ids: Sequence[UUID]) -> Statement[list[Result]]:
    """The jobs among these that are final or gone."""
    text = f"""
        SELECT w.id, j.state::text AS state, j.output, j.replaced_by,
            CASE WHEN j.state <> 'completed' THEN j.errors -> -1 ->> 'error' END AS error
        FROM unnest(%s::uuid[]) AS w (id)
        LEFT JOIN {Identifier(schema).as_string()}.job AS j ON j.id = w.id
        WHERE j.id IS NULL OR j.finalized_at IS NOT NULL
    """
    return Statement(text.encode(), [list(ids)], lambda rows: [Result(**row) for row in rows])


def exchange(
    schema: str, results: Mapping[str, Any], fetch: Mapping[str, Any], fetched: Sequence[str]
) -> Statement[tuple[list[Row], list[Row]]]:
    """Records results and fetches jobs, in one transaction. Returns the rows of both."""
    ended, started = call(schema, "finish_jobs", results, (), list), call(schema, "fetch_jobs", fetch, (), list)
    ends = ", ".join(ENDED)
    empty = ", ".join(f"NULL AS {column}" for column in fetched)
    text = (
        f"SELECT {ends}, {empty} {ended.text.decode().removeprefix('SELECT ')} "
        f"UNION ALL SELECT {', '.join(['NULL'] * len(ENDED))}, {', '.join(fetched)} {started.text.decode().removeprefix('SELECT ')}"
    )

    def read(rows: list[Row]) -> tuple[list[Row], list[Row]]:
        return [row for row in rows if row["counted"] is not None], [row for row in rows if row["counted"] is None]

    return Statement(text.encode(), [*ended.parameters, *started.parameters], read)


def call(
    schema: str,
    function: str,
    given: Mapping[str, Any],
    columns: Sequence[str],
    read: Callable[[list[Row]], T],
) -> Statement[T]:
    parameters = [Jsonb(value, dumps) if _TYPES.get(name) == "jsonb" else value for name, value in given.items()]
    return Statement(_text(schema, function, tuple(given), tuple(columns)), parameters, read)


@cache
def _text(schema: str, function: str, names: tuple[str, ...], columns: tuple[str, ...]) -> bytes:
    """A call with named arguments: what is not given keeps the database's default."""
    arguments = ", ".join(f"{Identifier(name).as_string()} => %s::{_TYPES.get(name, 'text')}" for name in names)
    return f"SELECT {', '.join(columns)} FROM {Identifier(schema, function).as_string()}({arguments})".encode()


def _document(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options under the names that they have in the database, without those that say nothing."""
    says_with_none = ("args", "unique", "group_policy")
    document = {name: value for name, value in options.items() if value is not None or name in says_with_none}
    if "unique" in document:
        document["unique_policy"] = document.pop("unique")
    for name in ("scheduled_at", "expires_at"):
        at = document.get(name)
        if isinstance(at, datetime) and at.tzinfo is None:
            raise ValueError(f"invalid {name}: needs a time zone, as in datetime.now(timezone.utc): {at}")
    return document


def dumps(value: Json) -> str:
    return json.dumps(value, default=_plain, allow_nan=False)


def _plain(value: object) -> str:
    match value:
        case datetime():
            return value.isoformat()
        case UUID():
            return str(value)
        case timedelta():
            return f"PT{value / timedelta(seconds=1):.6f}S"
    raise TypeError(f"cannot make JSON of a {type(value).__name__}: {value!r}")


def _inserted(rows: list[Row]) -> list[Inserted]:
    rejections = [
        Rejection(row.get("index", 0), row["id"], row["state"], row.get("earlier"))
        for row in rows
        if row["outcome"] == "rejected"
    ]
    if rejections:
        raise Rejected(rejections)
    return [Inserted(**{column: row[column] for column in _INSERTED}) for row in rows]
