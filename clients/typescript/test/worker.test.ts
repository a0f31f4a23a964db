/** Working jobs: outcomes, time limits, heartbeats, stops, and a database that goes away. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { beforeEach, mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";

import { Busy, Cancel, Discard, type Job, Retry, Snooze, Stale, Worker } from "../src/index.js";
import { freeSlots } from "../src/recording.js";
import type { Run } from "../src/running.js";
import { LONG, URL, client, newName, one, pool, quiet, rowOf, until, working } from "./database.js";

let kind: string;
let queue: string;
beforeEach(() => {
  kind = queue = newName();
});

async function insert(args: unknown = {}, maxAttempts = 25): Promise<string> {
  return (await client.insert(kind, args, { queue, maxAttempts })).id;
}

/** Resolves when the work is told to stop. */
function stopped(job: Job): Promise<unknown> {
  return job.signal.aborted ? Promise.resolve() : once(job.signal, "abort");
}

test("a function completes its job with what it returns", async () => {
  const worker = quiet(queue).job<{ n: number }>(kind, {}, async (job) => ({ n: 2 * job.args.n }));
  const job = await insert({ n: 2 });
  await working(worker, async () => {
    const { state, output } = await client.wait<{ n: number }>(job, { timeout: LONG });
    assert.deepEqual([state, output], ["completed", { n: 4 }]);
  });
});

test("each outcome is recorded", async () => {
  const ends: Record<string, () => unknown> = {
    throw: () => {
      throw new TypeError("no luck", { cause: new Error("deep") });
    },
    retry: () => Promise.reject(new Retry("later", { after: 3_600_000, code: "busy" })),
    snooze: () => new Snooze(3_600_000),
    cancel: () => {
      throw new Cancel("not wanted");
    },
    discard: () => new Discard("hopeless"),
    bigint: () => 1n,
    "nul error": () => Promise.reject(new Error("a \0 and a \ud800")),
    "no text": () => Promise.reject(Object.create(null)),
    "own cause": () => {
      const error = new Error("in a circle");
      throw Object.assign(error, { cause: new Error("deep", { cause: error }) });
    },
    "no answer": () => {
      const { proxy, revoke } = Proxy.revocable(new Error(), {});
      revoke();
      throw proxy;
    },
    end: () => undefined,
  };
  const worker = quiet(queue).job<string>(kind, {}, (job) => ends[job.args]!());
  // With one attempt a failure is final. Otherwise the next attempt may begin before the test looks.
  const inserts = Object.keys(ends).map(async (how) => [how, await insert(how, how === "retry" ? 2 : 1)]);
  const jobs = Object.fromEntries(await Promise.all(inserts));
  const rows: Record<string, any> = {};
  await working(worker, () =>
    until(async () => {
      for (const how in jobs) rows[how] = await rowOf(jobs[how]);
      return Object.values(rows).every(({ state }) => state !== "available" && state !== "running");
    }),
  );
  assert.equal(rows.end.state, "completed");
  for (const [how, ...expected] of [
    ["throw", "discarded", 1, "TypeError: no luck: Error: deep"],
    ["retry", "retryable", 1, "later"],
    ["snooze", "scheduled", 0, null],
    ["cancel", "cancelled", 1, "not wanted"],
    ["discard", "discarded", 1, "hopeless"],
    ["nul error", "discarded", 1, "Error: a \uFFFD and a \uFFFD"],
    ["no text", "discarded", 1, "a value that has no text"],
    ["own cause", "discarded", 1, "Error: in a circle: Error: deep"],
    ["no answer", "discarded", 1, "the function threw what cannot be told"],
  ]) {
    const { state, attempt, error } = rows[how as string];
    assert.deepEqual([state, attempt, error], expected, how as string);
  }
  const stored = async (how: string) => (await one("SELECT errors -> -1 FROM uniqueue.job WHERE id = $1", jobs[how])) as any;
  assert.deepEqual([(await stored("throw")).type, (await stored("retry")).code], ["TypeError", "busy"]);
  assert.ok(rows.retry.is_due_later && rows.snooze.is_due_later);
  assert.match(rows.bigint.error, /the output of the job is not JSON/);
});

test("a job that takes too long fails and is told to stop", async () => {
  const worker = quiet(queue).job(kind, { timeout: 50 }, stopped);
  const job = await insert({}, 1);
  await working(worker, () => until(async () => (await rowOf(job)).state === "discarded"));
  assert.equal((await rowOf(job)).error, "timed out after 50 ms");
  assert.equal(await one("SELECT errors -> -1 ->> 'code' FROM uniqueue.job WHERE id = $1", job), "timed_out");
});

test("a heartbeat keeps a long job and sends its progress", async () => {
  const runs: number[] = [];
  const worker = quiet(queue, { reserve: 1000 }).job(kind, {}, async (job) => {
    runs.push(job.attempt);
    job.progress = { done: 1 };
    await until(async () => (await rowOf(job.id)).progress?.done === 1);
    await sleep(1500);
  });
  const job = await insert();
  await working(worker, async () => {
    assert.equal((await client.wait(job, { timeout: LONG })).state, "completed");
  });
  assert.deepEqual(runs, [1]);
});

/** What is JSON in JavaScript, and what is not, and all of which PostgreSQL cannot store. */
const UNSTORABLE: Record<string, () => unknown> = {
  nul: () => "\0",
  "half a pair": () => ({ text: "\ud800" }),
  nesting: () => JSON.parse("[".repeat(5000) + "]".repeat(5000)),
  number: () => 1n,
  circle: () => {
    const circle: { itself?: unknown } = {};
    return (circle.itself = circle);
  },
};

test("a progress that cannot be stored is dropped, and stops neither its job nor the others", async () => {
  const warnings: string[] = [];
  const worker = quiet(queue, { reserve: 1000 }, warnings).job<string>(kind, {}, async (job) => {
    job.progress = UNSTORABLE[job.args]!();
    await sleep(2500); // Some heartbeats.
  });
  const jobs = await Promise.all(Object.keys(UNSTORABLE).map((how) => insert(how)));
  await working(worker, async () => {
    for (const { state } of await client.waitAll(jobs, { timeout: LONG })) assert.equal(state, "completed");
  });
  for (const id of jobs) assert.deepEqual([(await rowOf(id)).progress, (await rowOf(id)).attempt], [null, 1]);
  assert.equal(warnings.filter((warning) => warning.includes("progress: unsupported Unicode escape")).length, 1);
});

test("an output that cannot be stored is dropped, and its job is completed", async () => {
  const warnings: string[] = [];
  const worker = quiet(queue, {}, warnings).job<string>(kind, {}, (job) => UNSTORABLE[job.args]!());
  const jobs = await Promise.all(["nul", "half a pair"].map((how) => insert(how)));
  await working(worker, async () => {
    for (const { state, output } of await client.waitAll(jobs, { timeout: LONG })) {
      assert.deepEqual([state, output], ["completed", null]);
    }
  });
  assert.equal(warnings.filter((warning) => /goes on without values: output: /.test(warning)).length, 2);
});

test("the result of a job that is locked counts later, and holds up no other", async () => {
  const connection = await pool.connect();
  const worker = quiet(queue, { concurrency: 1 }).job<string>(kind, {}, async (job) => {
    if (job.args !== "locked") return;
    await connection.query("BEGIN");
    await connection.query("SELECT FROM uniqueue.job WHERE id = $1 FOR UPDATE", [job.id]);
  });
  const locked = await insert("locked");
  try {
    await working(worker, async () => {
      await until(async () => (await rowOf(locked)).state === "running");
      for (let n = 0; n < 5; n++) {
        assert.equal((await client.wait(await insert("free"), { timeout: LONG })).state, "completed");
      }
      await assert.rejects(client.complete({ id: locked, run: 1 } as Job), Busy);
      await connection.query("COMMIT");
      assert.equal((await client.wait(locked, { timeout: LONG })).state, "completed");
    });
  } finally {
    connection.release();
  }
  assert.equal((await rowOf(locked)).attempt, 1);
});

test("a result that a trigger refuses holds up no other, and counts later", async () => {
  const refuse = `CREATE FUNCTION "${kind}"() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'not now'; END$$`;
  await pool.query(`${refuse};
    CREATE TRIGGER "${kind}" BEFORE UPDATE ON uniqueue.job FOR EACH ROW
    WHEN (NEW.kind = '${kind}' AND NEW.state = 'completed' AND NEW.args = '1') EXECUTE FUNCTION "${kind}"()`);
  const warnings: string[] = [];
  const worker = quiet(queue, {}, warnings).job<number>(kind, {}, () => {});
  const jobs = await Promise.all([0, 1, 2].map((n) => insert(n)));
  await working(worker, async () => {
    await client.waitAll([jobs[0]!, jobs[2]!], { timeout: LONG });
    await until(() => warnings.some((warning) => warning.includes(jobs[1]!)));
    await pool.query(`DROP FUNCTION "${kind}"() CASCADE`);
    assert.equal((await client.wait(jobs[1]!, { timeout: LONG })).state, "completed");
  });
});

test("a worker fetches no more while as many results wait as one call takes", () => {
  const runs = (count: number, waits: number) => Array.from({ length: count }, () => ({ hasReturned: true, waits }) as Run);
  const running = { hasReturned: false, waits: 0 } as Run;
  const sent = runs(3, 0);
  assert.equal(freeSlots([running, ...sent, ...runs(2, 100)], new Set(sent), 10), 9, "those that wait take no slot");
  assert.equal(freeSlots([running, ...runs(995, 100)], new Set(), 10), 5);
  assert.equal(freeSlots(runs(1001, 100), new Set(), 10), 0);
});

test("a function that blocks the event loop is told", async () => {
  const warnings: string[] = [];
  const worker = quiet(queue, { reserve: 1000 }, warnings).job(kind, {}, () => {
    const until = performance.now() + 700;
    while (performance.now() < until);
  });
  await working(worker, async () => {
    await client.wait(await insert(), { timeout: LONG });
    await until(() => warnings.some((warning) => warning.includes("the event loop stood still")));
  });
});

test("a worker that declares nothing of a kind leaves its registration as it is", async () => {
  const registered = async () => (await pool.query("SELECT * FROM uniqueue.kind WHERE name = $1", [kind])).rows;
  await client.register(kind, { queue, maxAttempts: 3 });
  const before = await registered();
  await working(quiet(queue).job(kind, {}, () => {}), async () => {
    await client.wait(await insert(), { timeout: LONG });
  });
  assert.deepEqual(await registered(), before);
});

test("a job that is cancelled is told to stop at once", async () => {
  let told = false;
  let started = false;
  const worker = quiet(queue).job(kind, {}, async (job) => {
    started = true;
    await stopped(job);
    told = true;
  });
  const job = await insert();
  await working(worker, async () => {
    await until(() => started);
    const began = performance.now();
    await one("SELECT uniqueue.cancel_jobs(ARRAY[$1::uuid])", job);
    await until(() => told);
    assert.ok(performance.now() - began < 10_000, "before the next heartbeat, which comes after 20 s");
  });
  assert.equal((await rowOf(job)).state, "cancelled");
});

test("an idle worker is woken by an insert", async () => {
  const worker = quiet(queue, { poll: 1_000_000 }).job(kind, {}, () => {});
  await working(worker, async () => {
    await until(async () => (await one("SELECT count(*)::integer FROM uniqueue.runner WHERE name = $1 AND idle", worker.name)) === 1);
    assert.equal((await client.wait(await insert(), { timeout: LONG })).state, "completed");
  });
  assert.equal(await one("SELECT count(*)::integer FROM uniqueue.runner WHERE name = $1", worker.name), 0);
});

test("a worker that does not listen polls, and starts what is due", async () => {
  const worker = quiet(queue, { listen: false, poll: 20 }).job(kind, {}, (job) => {
    if (job.attempt === 1) throw new Retry("once more", { after: 100 });
  });
  await working(worker, async () => {
    await sleep(100);
    const job = await insert();
    assert.equal((await client.wait(job, { timeout: LONG })).state, "completed");
    assert.equal((await rowOf(job)).attempt, 2);
  });
});

test("a stop lets running jobs end and fetches no more", async () => {
  let end = () => {};
  const ended = new Promise<void>((resolve) => (end = resolve));
  let started = false;
  const worker = quiet(queue, { concurrency: 1 }).job(kind, {}, () => {
    started = true;
    return ended;
  });
  const jobs = [await insert(), await insert()];
  const stop = worker.stop.bind(worker);
  worker.stop = () => {
    stop();
    end();
  };
  await working(worker, () => until(() => started));
  assert.deepEqual([(await rowOf(jobs[0]!)).state, (await rowOf(jobs[1]!)).state], ["completed", "available"]);
});

test("jobs that outlast the stop are given back with their attempt", async () => {
  let job: Job | undefined;
  const worker = quiet(queue, { stopTimeout: 50 }).job(kind, {}, (given) => {
    job = given;
    return sleep(1000);
  });
  const id = await insert();
  await working(worker, () => until(() => job !== undefined));
  assert.ok(job!.signal.aborted);
  const { state, attempt } = await rowOf(id);
  assert.deepEqual([state, attempt], ["available", 0]);
});

test("effect and completion commit together", async () => {
  const stale: string[] = [];
  const worker = quiet(queue).job<{ n: number }>(kind, {}, async (job) => {
    const connection = await pool.connect();
    try {
      await connection.query("BEGIN");
      if (job.args.n === 2) await one("SELECT uniqueue.cancel_jobs(ARRAY[$1::uuid])", job.id);
      await client.on(connection).complete(job, { paid: true });
      await connection.query("COMMIT");
    } catch (error) {
      if (!(error instanceof Stale)) throw error;
      stale.push(job.id);
      await connection.query("ROLLBACK");
    } finally {
      connection.release();
    }
    return "ignored: the job is completed already";
  });
  const [done, cancelled] = [await insert({ n: 1 }), await insert({ n: 2 })];
  await working(worker, async () => {
    assert.deepEqual((await client.wait(done, { timeout: LONG })).output, { paid: true });
    assert.equal((await client.wait(cancelled, { timeout: LONG })).state, "cancelled");
    await until(() => stale[0] === cancelled);
  });
});

test("what a function says counts where the transaction that completed its job did not commit", async () => {
  const worker = quiet(queue).job<string>(kind, {}, async (job) => {
    const connection = await pool.connect();
    try {
      await connection.query("BEGIN");
      await client.on(connection).complete(job, { paid: true });
      await connection.query(job.args === "commit" ? "COMMIT" : "ROLLBACK");
    } finally {
      connection.release();
    }
    if (job.args !== "return") throw new Error("after the end");
  });
  const jobs = await Promise.all(["return", "throw", "commit"].map((how) => insert(how, 1)));
  await working(worker, async () => {
    const ends = await client.waitAll(jobs, { timeout: LONG });
    assert.deepEqual(
      ends.map(({ state, error }) => [state, error]),
      [
        ["discarded", "the transaction that completed the job did not commit"],
        ["discarded", "Error: after the end"],
        ["completed", null],
      ],
    );
  });
});

test("a worker survives the end of its connections", async () => {
  const name = newName();
  const own = new pg.Pool({ connectionString: URL, application_name: name });
  own.on("error", () => {});
  let end = () => {};
  const ended = new Promise<void>((resolve) => (end = resolve));
  let started = false;
  const log = { info: () => {}, warn: () => {} };
  const worker = new Worker(own, { queues: [queue], poll: 50, log }).job(kind, {}, () => {
    started = true;
    return ended;
  });
  const first = await insert();
  await working(worker, async () => {
    await until(() => started);
    const killed = "SELECT count(pg_terminate_backend(pid))::integer FROM pg_stat_activity WHERE application_name = $1";
    assert.equal(await one(killed, name), 2);
    end();
    assert.equal((await client.wait(first, { timeout: LONG })).state, "completed");
    assert.equal((await client.wait(await insert(), { timeout: LONG })).state, "completed");
  });
  await own.end();
});

test("a worker that was refused a connection opens another one, and can be stopped meanwhile", async () => {
  const name = newName();
  const own = new pg.Pool({ connectionString: URL, application_name: name });
  own.on("error", () => {});
  const error = Object.assign(new pg.DatabaseError("the database system is starting up", 0, "error"), { severity: "FATAL", code: "57P03" });
  let refused = 0;
  let refuses = false;
  const refuse = async (times: number) => {
    refuses = true;
    refused = 0;
    await one("SELECT count(pg_terminate_backend(pid))::integer FROM pg_stat_activity WHERE application_name = $1", name);
    await until(() => refused >= times);
  };
  const query = own.query.bind(own);
  const connect = () => {
    if (!refuses) return own.connect();
    refused += 1;
    return Promise.reject(error);
  };
  const log = { info: () => {}, warn: () => {} };
  const options = { queues: [queue], poll: 50, reserve: 1000, log };
  const worker = new Worker({ query, connect }, options).job(kind, {}, () => {});
  await working(worker, async () => {
    await client.wait(await insert(), { timeout: LONG });
    await refuse(4);
    refuses = false;
    assert.equal((await client.wait(await insert(), { timeout: LONG })).state, "completed");
    await refuse(4);
  });
  await own.end();
});

test("a worker that cannot connect can be stopped", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const never = { query: () => new Promise<never>(() => {}), connect: () => new Promise<never>(() => {}) };
  const worker = new Worker(never).job(kind, {}, () => {});
  let isEnded = false;
  void worker.serve().then(() => (isEnded = true));
  worker.stop();
  for (let second = 0; second < 60 && !isEnded; second++) {
    await new Promise(setImmediate);
    mock.timers.tick(1000);
  }
  mock.timers.reset();
  assert.ok(isEnded);
});

test("a pool that is too small for a worker is an error that names the number", async () => {
  const own = new pg.Pool({ connectionString: URL, max: 1 });
  const worker = new Worker(own, { queues: [queue] }).job(kind, {}, () => {});
  await assert.rejects(worker.serve(), /a worker keeps 2 connections, and the pool has at most 1/);
  await own.end();
});

test("a worker without rights ends with the error", async () => {
  const worker = quiet(queue, { schema: "not_there" }).job(kind, {}, () => {});
  await assert.rejects(worker.serve(), /not_there/);
});

const PROGRAM = `
import pg from "pg";
import { Worker } from ${JSON.stringify(new globalThis.URL("../src/index.js", import.meta.url).href)};

const [url, queue] = process.argv.slice(1);
const pool = new pg.Pool({ connectionString: url });
const worker = new Worker(pool, { queues: [queue], stopTimeout: 100 });
worker.job(queue, {}, () => {
  console.log("started");
  return new Promise(() => {});
});
await worker.run();
await pool.end();
`;

test("SIGTERM gives back even a job that hangs", async () => {
  const job = await insert();
  const program = spawn("node", ["--input-type=module", "-e", PROGRAM, "--", URL!, queue], {
    cwd: import.meta.dirname,
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(program.stdout, "data");
  program.kill("SIGTERM");
  assert.deepEqual(await once(program, "exit"), [0, null]);
  const { state, attempt } = await rowOf(job);
  assert.deepEqual([state, attempt], ["available", 0]);
});
