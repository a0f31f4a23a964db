// graphile-worker at the workloads of `uniqueue-bench`: one line of JSON.
//
// Usage: node graphile-worker.mjs URL WORKLOAD N, with insert_bulk, insert_single, insert_unique, work or latency.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [url, workload, count] = process.argv.slice(2);
if (!count) throw new Error("usage: node graphile-worker.mjs URL WORKLOAD N");
const n = Number(count);
const TASKS = 16;
const BULK = 1_000;
const TICK = 20;
const WARM_UP = 10;

const manifest = new URL("node_modules/graphile-worker/package.json", import.meta.url);
const version = JSON.parse(readFileSync(manifest, "utf8")).version;
const quiet = new Logger(() => () => {});
const pgPool = new pg.Pool({ connectionString: url, max: TASKS + 4 });
pgPool.on("error", () => {});
pgPool.on("connect", (client) => client.on("error", () => {}));
const utils = await makeWorkerUtils({ pgPool, logger: quiet });
await utils.migrate();
await pgPool.query("TRUNCATE graphile_worker._private_jobs");

/** Inserts from as many tasks, so many jobs at a time. Answers with the seconds it took. */
async function insert(tasks, batch, unique) {
  let next = 0;
  const began = performance.now();
  const inserting = async () => {
    while (next < n) {
      const first = next;
      next += batch;
      if (batch === 1) {
        await utils.addJob("bench", { n: first }, unique ? { jobKey: `key ${first}` } : {});
      } else {
        const size = Math.min(batch, n - first);
        await utils.addJobs(Array.from({ length: size }, (_, i) => ({ identifier: "bench", payload: { n: first + i } })));
      }
    }
  };
  await Promise.all(Array.from({ length: tasks }, inserting));
  return (performance.now() - began) / 1_000;
}

/** A worker with its batching on: a local queue, and jobs completed together. */
const start = (work, localQueue) =>
  run({
    pgPool,
    logger: quiet,
    taskList: { bench: work },
    noHandleSignals: true,
    preset: {
      worker: {
        concurrentJobs: localQueue ? 24 : 10,
        pollInterval: 2_000,
        maxPoolSize: TASKS + 4,
        ...(localQueue ? { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {}),
      },
    },
  });

/** Works what waits. Answers with the seconds it took. */
async function work() {
  await insert(4, BULK, false);
  await pgPool.query("ANALYZE graphile_worker._private_jobs");
  const began = performance.now();
  let done = 0;
  const runner = await start(() => void done++, true);
  while (done < n) await sleep(1);
  // Begun is not recorded.
  while ((await pgPool.query("SELECT FROM graphile_worker._private_jobs LIMIT 1")).rowCount > 0) await sleep(5);
  const seconds = (performance.now() - began) / 1_000;
  await runner.stop();
  return seconds;
}

/** One insert at each tick. Answers with the times from its answer to the start of its job, in milliseconds. */
async function latency() {
  const answers = [];
  const starts = new Map();
  const runner = await start(({ n: number }) => void starts.set(number, performance.now()), false);
  await sleep(2_000);
  for (let number = 0; number < n; number++) {
    const tick = sleep(TICK);
    await utils.addJob("bench", { n: number });
    answers.push(performance.now());
    await tick;
  }
  for (let waited = 0; starts.size < n && waited < 60_000; waited += 10) await sleep(10);
  await runner.stop();
  if (starts.size < n) throw new Error(`of ${n} jobs only ${starts.size} have started`);
  const times = [...starts].filter(([number]) => number >= WARM_UP).map(([number, at]) => Math.max(0, at - answers[number]));
  return times.sort((a, b) => a - b);
}

const line = { peer: `graphile-worker ${version}`, workload, n };
if (workload === "latency") {
  const times = await latency();
  const at = (percent) => times[Math.max(1, Math.ceil((times.length * percent) / 100)) - 1];
  Object.assign(line, { p50_ms: at(50), p99_ms: at(99) });
} else {
  const ways = {
    insert_bulk: () => insert(4, BULK, false),
    insert_single: () => insert(TASKS, 1, false),
    insert_unique: () => insert(TASKS, 1, true),
    work,
  };
  if (!ways[workload]) throw new Error(`no such workload: ${workload}`);
  line.jobs_per_second = Math.round(n / (await ways[workload]()));
}
console.log(JSON.stringify(line));
await utils.release();
await pgPool.end();
