// A whole worker, with the client of clients/typescript.
import pg from "pg";
import { Discard, Retry, Worker } from "uniqueue";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, keepAlive: true });
const worker = new Worker(pool, { concurrency: 10 });

// Registers the kind: an insert in any language that names it gets this queue and this key.
const options = { queue: "mail", unique: { keys: ["args"] }, timeout: 60_000 };
worker.job("mail.send", options, async (job) => {
  if (!job.args.to) throw new Discard("nobody to send it to");
  if (job.attempt === 1) throw new Retry("the server is busy", { after: 100 });
  return { sent: job.args.to }; // the job's output
});

await worker.run(); // until SIGTERM or SIGINT
await pool.end();
