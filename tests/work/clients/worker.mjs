// A worker that says who works a job, and ends the job when the test allows it.

import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";
import { Worker } from "uniqueue";

const { CONCURRENCY, DATABASE_URL, KIND, NAME, QUEUE, RESERVE, WHO } = process.env;
const pool = new pg.Pool({ connectionString: DATABASE_URL });
const worker = new Worker(pool, {
  queues: [QUEUE],
  concurrency: Number(CONCURRENCY),
  reserve: 1000 * Number(RESERVE),
  poll: 100,
  ...(NAME ? { name: NAME } : {}),
});

worker.job(KIND, { queue: QUEUE }, async (job) => {
  await pool.query("INSERT INTO visit (job, who) VALUES ($1, $2)", [job.id, WHO]);
  while (!(await pool.query("SELECT may_end()")).rows[0].may_end) await sleep(20);
  return { by: WHO };
});

await worker.run();
await pool.end();
