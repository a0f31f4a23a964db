// Pushes and works jobs with the client of Faktory on npm: client.mjs push|work URL.
import faktory from "faktory-worker";

const [verb, url] = process.argv.slice(2);

async function push() {
  const client = await faktory.connect({ url });
  const result = {};
  const push = async (name, job) => {
    result[name] = await client.push(job).then(() => true, (error) => error.message);
  };
  await push("ok", { jobtype: "ok", args: [1, { two: 3.5 }], queue: "node" });
  await push("bad", { jobtype: "bad", args: [], queue: "node", retry: 2 });
  await push("later", { jobtype: "later", args: ["fizz"], at: "2100-01-01T00:00:00Z" });
  await push("native", { jobtype: "native", args: [{ user: 7 }], queue: "rust" });
  const unique = () => ({ jobtype: "unique", args: [1], custom: { unique_for: 600 } });
  await push("unique", unique());
  await push("again", unique());
  const bulk = await client.pushBulk([{ jobtype: "ok", args: [2], queue: "node" }, unique()]);
  result.bulk = Object.values(bulk).map((rejected) => rejected.reason);
  result.killed = await client.scheduled.matching("*fizz*").kill();
  result.enqueued = (await client.info()).faktory.total_enqueued;
  await client.close();
  console.log(JSON.stringify(result));
}

async function work() {
  faktory.register("ok", async () => {});
  faktory.register("bad", async () => {
    throw new Error("no luck");
  });
  await faktory.work({ url, queues: ["node", "python"], concurrency: 2 });
}

await { push, work }[verb]();
