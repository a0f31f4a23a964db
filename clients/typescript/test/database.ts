/** The database of the tests: that of DATABASE_URL, with uniqueue's schema. */

import { setTimeout as sleep } from "node:timers/promises";
import { after } from "node:test";

import pg from "pg";

import { Client, Worker, type WorkerOptions } from "../src/index.js";

export const URL = process.env.DATABASE_URL;

/** How many milliseconds a test waits for what should happen at once. */
export const LONG = 20_000;

export const pool = new pg.Pool({ connectionString: URL, max: 20 });
export const client = new Client(pool);
after(() => pool.end());

let names = 0;

/** The name of a queue or a kind that no other test has. */
export function newName(): string {
  return `ts.${process.pid}.${++names}`;
}

/** The only column of the only row. */
export async function one(text: string, ...values: unknown[]): Promise<any> {
  const { rows } = await pool.query({ text, values, rowMode: "array" });
  return rows[0]![0];
}

export async function rowOf(id: string): Promise<any> {
  const { rows } = await pool.query(
    `SELECT state::text AS state, attempt::integer AS attempt, output, progress, errors -> -1 ->> 'error' AS error,
       scheduled_at > clock_timestamp() AS is_due_later
     FROM uniqueue.job WHERE id = $1`,
    [id],
  );
  return rows[0];
}

/** Waits until this is so. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const began = performance.now();
  while (!(await holds())) {
    if (performance.now() - began > LONG) throw new Error(`it never holds: ${holds}`);
    await sleep(10);
  }
}

/** A worker that keeps quiet about the failures that a test makes. What it warns of goes to a list. */
export function quiet(queue: string, options: WorkerOptions = {}, warnings: string[] = []): Worker {
  const log = { info: () => {}, warn: (warning: string) => void warnings.push(warning) };
  return new Worker(pool, { queues: [queue], poll: 50, log, ...options });
}

/** Lets a worker work during a test, and stops it in the end. */
export async function working(worker: Worker, test: () => Promise<void>): Promise<void> {
  const serving = worker.serve();
  try {
    await Promise.race([test(), serving.then(() => Promise.reject(new Error("the worker ended")))]);
  } finally {
    worker.stop();
  }
  await serving;
}
