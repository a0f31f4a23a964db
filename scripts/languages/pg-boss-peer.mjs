// pg-boss: pg-boss-peer.mjs URL JOBS BATCH. Prints how many jobs it worked in a second.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { PgBoss } from "pg-boss";

const [url, count, batch] = process.argv.slice(2);
const [jobs, batchSize] = [Number(count), Number(batch)];
const manifest = new URL("node_modules/pg-boss/package.json", import.meta.url);
const { version } = JSON.parse(readFileSync(manifest, "utf8"));

const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue("bench");
for (let first = 0; first < jobs; first += 1000) {
  const length = Math.min(1000, jobs - first);
  await boss.insert("bench", Array.from({ length }, (_, i) => ({ data: { n: first + i } })));
}
await boss.getDb().executeSql("ANALYZE");
let done = 0;
// The shortest interval. After a full batch pg-boss fetches the next batch at once.
const options = { batchSize, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
await boss.work("bench", options, async (batch) => void (done += batch.length));
while (done < jobs) await sleep(10);
await boss.stop({ graceful: true });
await boss.start();
const { rows } = await boss.getDb().executeSql(
  `SELECT count(*)::integer AS jobs, extract(epoch FROM max(completed_on) - min(started_on))::float8 AS seconds
   FROM pgboss.job WHERE name = 'bench' AND state = 'completed'`,
);
if (rows[0].jobs !== jobs) throw new Error(JSON.stringify(rows));
console.log(`pg-boss ${version}, batches of ${batchSize}\t${Math.round(jobs / rows[0].seconds)}`);
await boss.stop();
