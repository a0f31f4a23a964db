/** Drivers other than pg. */

import assert from "node:assert/strict";
import { test } from "node:test";

import pg from "pg";
import postgres from "postgres";

import { Client, type Queryable } from "../src/index.js";
import { URL, newName, one } from "./database.js";

test("a driver that encodes parameters by their types stores JSON as it is", async () => {
  const { host, port, database, user } = new pg.Client({ connectionString: URL });
  const sql = postgres({ host, port, database: database!, username: user! });
  const query: Queryable["query"] = async (text, values = []) => ({ rows: await sql.unsafe(text, values as string[]) });
  const client = new Client({ query });
  const [kind, meta, unique] = [newName(), { trace: "t" }, { keys: ["args" as const] }];
  try {
    const first = await client.insert(kind, { n: 1 }, { meta, unique });
    const [again] = await client.insertMany([{ kind, args: { n: 1 }, meta, unique }]);
    assert.equal(again!.id, first.id);
    const fetch = "SELECT id, run FROM uniqueue.fetch_jobs('{default}', 'driver', kinds => ARRAY[$1])";
    const [run] = (await query(fetch, [kind])).rows;
    await client.complete(run, { sent: true });
    assert.deepEqual(await one("SELECT args || meta || output FROM uniqueue.job WHERE id = $1", first.id), { n: 1, trace: "t", sent: true });
  } finally {
    await sql.end();
  }
});
