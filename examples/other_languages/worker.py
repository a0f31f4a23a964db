# A whole worker, with the client of clients/python.
import os
from datetime import timedelta

import uniqueue

worker = uniqueue.Worker(os.environ["DATABASE_URL"], concurrency=10)


# Registers the kind: an insert in any language that names it gets this queue and this key.
@worker.job("mail.send", queue="mail", unique={"keys": ["args"]}, timeout=timedelta(minutes=1))
def send(job: uniqueue.Job) -> dict:
    if not job.args["to"]:
        raise uniqueue.Discard("nobody to send it to")
    if job.attempt == 1:
        raise uniqueue.Retry("the server is busy", after=0.1)
    return {"sent": job.args["to"]}  # the job's output


worker.run()  # until SIGTERM or SIGINT
