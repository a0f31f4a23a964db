// A worker whose jobs end, and report progress, with what PostgreSQL cannot store.

import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";
import { Client, Retry, Worker } from "uniqueue";

const { CONCURRENCY, DATABASE_URL, KIND, QUEUE, RESERVE } = process.env;
const pool = new pg.Pool({ connectionString: DATABASE_URL });
const worker = new Worker(pool, {
  queues: [QUEUE],
  concurrency: Number(CONCURRENCY),
  reserve: 1000 * Number(RESERVE),
  poll: 100,
  log: { info: () => {}, warn: () => {} }, // Each job warns.
});

function deep() {
  let value = [];
  for (let depth = 0; depth < 100_000; depth++) value = [value];
  return value;
}

const circle = {};
circle.itself = circle;
const bad = ["\0", "\ud800", deep(), 1n, circle];

worker.job(KIND, {}, async (job) => {
  job.progress = bad[job.args.n % bad.length];
  await sleep(50);
  const how = job.args.n % 9;
  if (how < 2) return bad[how];
  if (job.errors.length > 0) return { by: "another attempt" }; // It failed before.
  if (how < 5) return bad[how];
  if (how === 5) throw Object.create(null);
  if (how === 6) {
    const connection = await pool.connect();
    try {
      await connection.query("BEGIN");
      await new Client(connection).complete(job);
      throw new Error("after the completion");
    } finally {
      connection.release(true);
    }
  }
  if (how === 7) return new Retry("again", { after: 0, code: "c".repeat(500) });
  return { by: "the first attempt" };
});

await worker.run();
await pool.end();
