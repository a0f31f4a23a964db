/** Inserting, explaining and waiting. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";

import {
  Busy, Client, IdTaken, InvalidArgument, QueueFull, Rejected, type UniquePolicy, UnknownParent, WaitTimeout,
} from "../src/index.js";
import { client, newName, one, pool } from "./database.js";

const BY_ARGS: UniquePolicy = { keys: ["args"] };
const REJECT: UniquePolicy = { keys: ["args"], on_conflict: "reject" };

let kind: string;
beforeEach(() => {
  kind = newName();
});

function jobs(): Promise<number> {
  return one("SELECT count(*)::integer FROM uniqueue.job WHERE kind = $1", kind);
}

/** Runs a test in a transaction, which is rolled back in the end. */
async function inTransaction(run: (tx: Client, connection: { query(text: string): Promise<unknown> }) => Promise<void>) {
  const connection = await pool.connect();
  try {
    await connection.query("BEGIN");
    await run(client.on(connection), connection);
    await connection.query("ROLLBACK");
  } finally {
    connection.release();
  }
}

test("a job exists once the transaction commits", async () => {
  await inTransaction(async (tx) => {
    await tx.insert(kind, { n: 1 });
    assert.equal(await jobs(), 0);
  });
  await inTransaction(async (tx, connection) => {
    await tx.insert(kind, { n: 1 });
    await connection.query("COMMIT");
  });
  assert.equal(await jobs(), 1);
});

test("a duplicate is answered with the holder", async () => {
  const first = await client.insert(kind, { n: 1 }, { unique: BY_ARGS });
  const again = await client.insert(kind, { n: 1 }, { unique: BY_ARGS });
  assert.deepEqual([first.outcome, first.duplicate, first.state], ["inserted", false, "available"]);
  assert.deepEqual(again, { ...first, outcome: "duplicate", duplicate: true });
  assert.equal(await client.uniqueKey(kind, { n: 1 }, { unique: BY_ARGS }), first.uniqueKey);
  const newest = await client.insert(kind, { n: 1 }, { unique: { keys: ["args"], on_conflict: "replace" } });
  assert.equal(newest.replaced, first.id);
});

test("args may be any JSON", async () => {
  for (const args of [[1, [2]], "text", null, 7, true, { nested: [{ a: null }] }]) {
    const { id } = await client.insert(kind, args);
    assert.deepEqual(await one("SELECT args FROM uniqueue.job WHERE id = $1", id), args);
  }
});

test("a rejected duplicate is an error, and the transaction goes on", async () => {
  await inTransaction(async (tx, connection) => {
    const first = await tx.insert(kind, {}, { unique: REJECT });
    await assert.rejects(tx.insert(kind, {}, { unique: REJECT }), (error: Error) => {
      assert.ok(error instanceof Rejected && error.name === "Rejected" && error.message.includes(first.id));
      assert.deepEqual([error.holder, error.state], [first.id, "available"]);
      return true;
    });
    await connection.query("COMMIT");
  });
  assert.equal(await jobs(), 1);
});

test("many jobs are answered in their order", async () => {
  const scheduledAt = new Date(Date.now() + 3_600_000);
  const answers = await client.insertMany([1, 2, 1].map((n) => ({ kind, args: { n }, unique: BY_ARGS, scheduledAt })));
  assert.deepEqual(answers.map(({ outcome, state }) => [outcome, state]), [
    ["inserted", "scheduled"],
    ["inserted", "scheduled"],
    ["duplicate", "scheduled"],
  ]);
  assert.equal(answers[0]!.id, answers[2]!.id);
});

test("a batch with a rejected job inserts none and names each", async () => {
  const held = await client.insert(kind, { n: 1 }, { unique: REJECT });
  const batch = client.insertMany([2, 1, 2].map((n) => ({ kind, args: { n }, unique: REJECT })));
  await assert.rejects(batch, (error: Error) => {
    assert.deepEqual(error instanceof Rejected && error.rejections, [
      { index: 1, holder: held.id, state: "available", earlier: null },
      { index: 2, holder: null, state: null, earlier: 0 },
    ]);
    return true;
  });
  assert.equal(await jobs(), 1);
});

test("arguments at fault are named", async () => {
  const wrong = { keyz: [] } as UniquePolicy;
  await assert.rejects(client.insert(kind, {}, { unique: wrong }), (error) => error instanceof InvalidArgument && /keyz/.test(error.message));
  const first = await client.insert(kind, { n: 1 });
  assert.equal((await client.insert(kind, { n: 1 }, { id: first.id })).id, first.id);
  await assert.rejects(client.insert(kind, { n: 2 }, { id: first.id }), IdTaken);
});

test("the key of an open transaction is busy after maxWait", async () => {
  await inTransaction(async (tx) => {
    await tx.insert(kind, {}, { unique: BY_ARGS });
    await assert.rejects(client.insert(kind, {}, { unique: BY_ARGS, maxWait: 20 }), Busy);
  });
});

test("a full queue is an error with its room", async () => {
  const queue = newName();
  await one(`SELECT uniqueue.set_queue($1, '{"max_waiting": 1}')`, queue);
  await assert.rejects(client.insertMany([{ kind, queue }, { kind, queue }]), (error: Error) => {
    assert.ok(error instanceof QueueFull);
    assert.deepEqual([error.queue, error.maxWaiting, error.room], [queue, 1, 1]);
    return true;
  });
  await one(`SELECT uniqueue.set_queue($1, '{"max_waiting": null}')`, queue);
});

test("an explanation names the holder and writes nothing", async () => {
  const first = await client.insert(kind, { n: 1 }, { unique: BY_ARGS });
  const explained = await client.explain(kind, { n: 1 }, { unique: BY_ARGS });
  assert.deepEqual([explained.outcome, explained.holder, explained.holderState], ["duplicate", first.id, "available"]);
  assert.equal(explained.canonical, `{"args":{"n":1},"type":"${kind}"}`);
  assert.ok(explained.holderAge! >= 0);
  assert.equal((await client.explain(kind, { n: 2 }, { unique: BY_ARGS })).outcome, "inserted");
});

test("a registered kind gives what the insert leaves out", async () => {
  await client.register(kind, { queue: newName(), unique: BY_ARGS, maxAttempts: 3 });
  const first = await client.insert(kind, { n: 1 });
  assert.equal((await client.insert(kind, { n: 1 })).id, first.id);
  assert.equal((await client.insertMany([{ kind, args: { n: 1 } }]))[0]!.id, first.id);
  assert.equal((await client.explain(kind, { n: 1 })).holder, first.id);
  assert.equal((await client.insert(kind, { n: 1 }, { unique: null })).duplicate, false);
});

test("programs of one role erase nothing of each other's registrations", async () => {
  await new Client(pool, { program: "a" }).register(kind, { unique: BY_ARGS, maxAttempts: 3 });
  await new Client(pool, { program: "b" }).on(pool).register(kind, { queue: "mails" });
  await new Client(pool, { program: "a" }).register(kind, { unique: BY_ARGS });
  const { rows } = await pool.query("SELECT queue, max_attempts, owners FROM uniqueue.kind WHERE name = $1", [kind]);
  assert.deepEqual(rows, [{ queue: "mails", max_attempts: null, owners: { queue: "b", unique_policy: "a" } }]);
});

test("the program of a client is its main file, and a text has none", async () => {
  const owner = async () => one("SELECT owners ->> 'queue' FROM uniqueue.kind WHERE name = $1", kind);
  await client.register(kind, { queue: "mails" });
  assert.equal(await owner(), fileURLToPath(import.meta.url));
  const register = `
    import pg from "pg";
    import { Client } from "uniqueue";
    const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
    await new Client(pool).register("${kind}", { queue: "mails" });
    await pool.end();`;
  assert.equal(spawnSync("node", ["--input-type=module", "-e", register]).status, 0);
  assert.equal(await owner(), null);
});

test("a job expires at a time or after one", async () => {
  const at = new Date(Date.now() + 3 * 3_600_000);
  await client.register(kind, { expiresIn: 9 * 3_600_000 });
  const jobs = [
    await client.insert(kind, {}, { expiresAt: at }),
    await client.insert(kind, {}, { scheduledAt: at, expiresIn: 500 }),
    ...(await client.insertMany([{ kind, expiresAt: at }, { kind, expiresIn: 3_600_000 }])),
    await client.insert(kind),
  ];
  const ends: number[] = [];
  for (const { id } of jobs) ends.push(Number(await one("SELECT expires_at FROM uniqueue.job WHERE id = $1", id)));
  assert.deepEqual(ends.slice(0, 3), [at.getTime(), at.getTime() + 500, at.getTime()]);
  assert.ok(ends[3]! < at.getTime() && ends[4]! > at.getTime());
});

test("a job waits for those that it runs after", async () => {
  const first = await client.insert(kind);
  const child = await client.insert(kind, {}, { after: [first.id], afterFinal: [first.id] });
  assert.deepEqual([first.state, child.state], ["available", "pending"]);
  const batch = await client.insertMany([{ kind }, { kind, after: [0], afterFailed: [first.id] }]);
  assert.deepEqual(batch.map(({ state }) => state), ["available", "pending"]);
  const [parent] = await client.parents(child.id);
  assert.deepEqual([parent!.id, parent!.kind, parent!.state, parent!.outcome], [first.id, kind, "available", null]);
  await assert.rejects(client.insert(kind, {}, { after: [randomUUID()] }), UnknownParent);
});

test("a wait answers with the end of each job", async () => {
  const job = await client.insert(kind);
  await assert.rejects(client.wait(job.id, { timeout: 50 }), WaitTimeout);
  await one("SELECT uniqueue.cancel_jobs(ARRAY[$1::uuid])", job.id);
  const [ended, gone] = await client.waitAll([job.id, randomUUID()]);
  assert.deepEqual([ended!.id, ended!.state, ended!.output], [job.id, "cancelled", null]);
  assert.equal(gone!.state, null);
});
