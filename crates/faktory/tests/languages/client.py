"""Pushes and works jobs with the clients of Faktory on PyPI: client.py push|work URL."""

import json
import sys

import faktory
import pyfaktory


def succeed(*args):
    return len(args)


def fail(*args):
    raise ValueError("no luck")


def push(url):
    results = {}
    with pyfaktory.Client(faktory_url=url, role="producer") as client:
        producer = pyfaktory.Producer(client=client)
        unique = {"unique_for": 600}
        for name, job in {
            "ok": pyfaktory.Job(jobtype="ok", args=[1, {"two": 3.5}], queue="python"),
            "bad": pyfaktory.Job(jobtype="bad", args=[], queue="python", retry=2),
            "dead": pyfaktory.Job(jobtype="bad", args=[1], queue="python", retry=-1),
            "later": pyfaktory.Job(jobtype="later", args=[], at="2100-01-01T00:00:00Z"),
            "unique": pyfaktory.Job(jobtype="unique", args=[1], custom=unique),
            "again": pyfaktory.Job(jobtype="unique", args=[1], custom=unique),
        }.items():
            try:
                results[name] = producer.push(job)
            except Exception as error:
                results[name] = str(error)
        results["bulk"] = producer.push_bulk([pyfaktory.Job(jobtype="ok", args=[n], queue="python") for n in range(3)])
        results["discard"] = client.mutate(pyfaktory.MutateOperation(cmd="discard", target="scheduled"))
        results["queues"] = client.info()["faktory"]["queues"]
    with faktory.connection(url) as client:
        results["other"] = client.queue("native", args=({"user": 7},), queue="rust")
    print(json.dumps(results))


def work(url):
    with pyfaktory.Client(faktory_url=url, role="consumer") as client:
        consumer = pyfaktory.Consumer(client=client, queues=["python", "node"], concurrency=2, grace_period=5)
        consumer.register("ok", succeed)
        consumer.register("bad", fail)
        consumer.run()


if __name__ == "__main__":
    {"push": push, "work": work}[sys.argv[1]](sys.argv[2])
