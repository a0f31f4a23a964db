"""A worker that says who works a job, and ends the job when the test allows it."""

import os
import time

import psycopg

import uniqueue

who = os.environ["WHO"]
worker = uniqueue.Worker(
    os.environ["DATABASE_URL"],
    queues=[os.environ["QUEUE"]],
    concurrency=int(os.environ["CONCURRENCY"]),
    reserve=float(os.environ["RESERVE"]),
    name=os.environ.get("NAME"),
    poll=0.1,
)


@worker.job(os.environ["KIND"], queue=os.environ["QUEUE"])
def work(job: uniqueue.Job) -> dict:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("INSERT INTO visit (job, who) VALUES (%s, %s)", [job.id, who])
        while not connection.execute("SELECT may_end()").fetchone()[0]:
            time.sleep(0.02)
    return {"by": who}


worker.run()
