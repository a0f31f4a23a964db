// Works the jobs of the bench with the client for TypeScript: worker.mjs URL SLOTS

import pg from "pg";
import { Worker } from "uniqueue";

const [url, slots] = process.argv.slice(-2);
const pool = new pg.Pool({ connectionString: url });
const worker = new Worker(pool, { concurrency: Number(slots) });
worker.job("bench", {}, async () => {});
await worker.run();
await pool.end();
