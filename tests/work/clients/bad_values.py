"""A worker whose jobs end, and report progress, with what PostgreSQL cannot store."""

import os
import sys
import time

import psycopg

import uniqueue

worker = uniqueue.Worker(
    os.environ["DATABASE_URL"],
    queues=[os.environ["QUEUE"]],
    concurrency=int(os.environ["CONCURRENCY"]),
    reserve=float(os.environ["RESERVE"]),
    poll=0.1,
)


def deep() -> list:
    value: list = []
    for _ in range(100_000):
        value = [value]
    return value


@worker.job(os.environ["KIND"])
def work(job: uniqueue.Job) -> object:
    bad = ["\0", "\ud800", deep(), b"no JSON", float("nan")]
    job.progress = bad[job.args["n"] % len(bad)]
    time.sleep(0.05)
    how = job.args["n"] % 9
    if how < 2:
        return bad[how]
    if job.errors:  # It failed before.
        return {"by": "another attempt"}
    match how:
        case 2 | 3 | 4:
            return bad[how]
        case 5:
            sys.exit(1)
        case 6:
            with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
                uniqueue.Client(connection).complete(job)
                raise ValueError("after the completion")
        case 7:
            return uniqueue.Retry("again", after=0, code="c" * 500)
    return {"by": "the first attempt"}


worker.run()
