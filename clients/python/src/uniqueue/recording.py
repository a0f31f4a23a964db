"""What is sent of the ends of runs, and of their progress."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .outcome import Outcome, Verdict, failed, text_of, verdict_on
from .running import Run, warn_of_dropped
from .statements import dumps

Recording = tuple[Run, Verdict, asyncio.Future[None]]
"""A result that is to be recorded, and the future that ends when it is."""

MOST_JOBS = 1000
"""In one fetch, and in one call that records results."""
_LARGEST_VALUE = 2**28 - 1
"""PostgreSQL stores no longer JSON, and takes no message of 1 GB."""

log = logging.getLogger("uniqueue")


def arguments(batch: Sequence[Recording]) -> dict[str, Any]:
    """The arguments of ``finish_jobs``."""
    verdicts = [verdict for _, verdict, _ in batch]
    return {
        "ids": [run.job.id for run, _, _ in batch],
        "runs": [run.job.run for run, _, _ in batch],
        "outcomes": [verdict.outcome for verdict in verdicts],
        "delays": [verdict.delay for verdict in verdicts],
        "errors": [verdict.error for verdict in verdicts],
        "error_details": [verdict.details for verdict in verdicts],
        "outputs": [verdict.output for verdict in verdicts],
        "progress": [progress_of(run) for run, _, _ in batch],
    }


def verdict_of(run: Run) -> Verdict:
    """What the end of a function means. Whatever is wrong with it is the job's failure."""
    if run.work.cancelled():
        return failed("the function was cancelled")
    try:
        end = run.work.result()
        if isinstance(end, BaseException) and not isinstance(end, Outcome):
            log.warning("job %s (%s) failed", run.job.id, run.job.kind, exc_info=end)
        verdict = verdict_on(end)
    except BaseException as error:
        return failed(f"the end of the job cannot be recorded: {text_of(error)}")
    if len(verdict.output or "") > _LARGEST_VALUE:
        warn_of_dropped(run.job, "output: too large")
        verdict = replace(verdict, output=None)
    if run.job._is_completed and verdict.outcome == "complete":
        # Counts only if that transaction did not commit: otherwise the run is over.
        return failed("the transaction that completed the job did not commit", details='{"code": "not_committed"}')
    return verdict


def timed_out(run: Run) -> Verdict:
    return failed(f"timed out after {run.timeout} s", details='{"code": "timed_out"}')


def progress_of(run: Run) -> str | None:
    """The progress as JSON. ``None``: there is none that can be stored."""
    try:
        progress = None if run.job.progress is None else dumps(run.job.progress)
    except BaseException as error:
        log.warning("the progress of job %s is not JSON: %s", run.job.id, text_of(error))
        return None
    return None if progress == run.dropped or len(progress or "") > _LARGEST_VALUE else progress


def next_batch(results: list[Recording]) -> list[Recording]:
    """The results of the next call."""
    size = 0
    for count, (_, verdict, _) in enumerate(results[:MOST_JOBS]):
        size += len(verdict.output or "")
        if size > _LARGEST_VALUE:
            return results[: max(count, 1)]
    return results[:MOST_JOBS]
