"""procrastinate: procrastinate-peer.py URL JOBS SLOTS. Prints how many jobs it worked in a second."""

import asyncio
import sys
from importlib.metadata import version

import procrastinate

url, jobs, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=slots + 4))


@app.task(name="bench")
async def work(n: int) -> None:
    pass


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for first in range(0, jobs, 1000):
            await work.batch_defer_async(*({"n": n} for n in range(first, min(first + 1000, jobs))))
        await app.connector.execute_query_async("ANALYZE")
        await app.run_worker_async(concurrency=slots, wait=False, install_signal_handlers=False)
        took = await app.connector.execute_query_one_async(
            "SELECT count(*) FILTER (WHERE type = 'succeeded') AS jobs,"
            " extract(epoch FROM max(at) - min(at) FILTER (WHERE type = 'started'))::float8 AS seconds"
            " FROM procrastinate_events"
        )
    assert took["jobs"] == jobs, took
    print(f"procrastinate {version('procrastinate')}, {slots} slot{'s' * (slots > 1)}\t{round(jobs / took['seconds'])}")


asyncio.run(main())
