/** Connections that a worker keeps. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { type Connection, Session } from "../src/session.js";

/** A connection that answers its only query with this. */
function connection(answer: () => Promise<{ rows: any[] }>): Connection & { isReleased: boolean } {
  return {
    isReleased: false,
    query: answer,
    on: () => {},
    release() {
      this.isReleased = true;
    },
  };
}

test("a connection with a plan of a changed table is given up", async () => {
  const changed = Object.assign(new Error("cached plan must not change result type"), { severity: "ERROR", code: "0A000" });
  const first = connection(() => Promise.reject(changed));
  const connections = [first, connection(async () => ({ rows: [7] }))];
  const session = new Session({ query: first.query, connect: async () => connections.shift()! });
  await assert.rejects(session.query("SELECT"), changed);
  assert.deepEqual((await session.query("SELECT")).rows, [7]);
  assert.ok(first.isReleased);
});

test("a pool without a free connection is told, and its late answer is given back", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const late = connection(async () => ({ rows: [] }));
  let answer = (_: Connection) => {};
  const connect = () => new Promise<Connection>((resolve) => (answer = resolve));
  const session = new Session({ query: late.query, connect, options: { max: 5 } });
  const asked = session.query("SELECT");
  mock.timers.tick(10_000);
  await assert.rejects(asked, /no connection within 10000 ms from a pool of at most 5/);
  answer(late);
  await new Promise(setImmediate);
  assert.ok(late.isReleased);
  mock.timers.reset();
});
