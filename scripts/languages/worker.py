"""Works the jobs of the bench with the client for Python: worker.py URL SLOTS."""

import sys

import uniqueue

worker = uniqueue.Worker(sys.argv[1], concurrency=int(sys.argv[2]))


@worker.job("bench")
async def work(job: uniqueue.Job) -> None:
    pass


worker.run()
