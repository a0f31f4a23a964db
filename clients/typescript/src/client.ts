/** Inserting jobs, asking about keys, and waiting for results. */

import { setTimeout as sleep } from "node:timers/promises";

import { ENDED_COLUMNS, MAIN_FILE, type Queryable, type Row, call, identifier, named } from "./call.js";
import { Busy, Rejected, type Rejection, Stale, WaitTimeout, translated } from "./errors.js";
import type { Explanation, Inserted, JobOptions, KeyOptions, KindOptions, NewJob, Parent, Result } from "./job.js";
import { type Job, warnOfDropped } from "./running.js";

export interface WaitOptions {
  /** In milliseconds. Default: none. */
  timeout?: number;
  /** Ends the wait with an `AbortError`. */
  signal?: AbortSignal;
}

const ANSWER = "id, state, duplicate, outcome, replaced, unique_key";
const EXPLANATION =
  "outcome, unique_key, canonical, holder, holder_state, claims_in, frees, replaced, new_args, new_scheduled_at, "
  + "extract(epoch FROM holder_age)::float8 * 1000 AS holder_age";
const FIRST_INTERVAL = 25;
const LONGEST_INTERVAL = 1000;

/**
 * Inserts jobs over a pool or a connection of pg.
 *
 * Over a pool, each call is a transaction of its own. Over a connection that is in a transaction, each call is part of it:
 * the job exists once you commit.
 */
export class Client {
  readonly schema: string;
  readonly #source: Queryable;
  readonly #program: string | undefined;

  /** `program`: the program that `register` registers kinds for. Default: the main file of the process, if it has one. */
  constructor(source: Queryable, options: { schema?: string; program?: string } = {}) {
    this.#source = source;
    this.schema = options.schema ?? "uniqueue";
    this.#program = options.program || MAIN_FILE;
  }

  /** The same queue over another connection: `client.on(connection).insert(…)`. */
  on(source: Queryable): Client {
    return new Client(source, { schema: this.schema, ...(this.#program ? { program: this.#program } : {}) });
  }

  /**
   * Inserts a job, or answers with the holder of its key.
   *
   * `maxWait` bounds the wait for another open transaction with the same key, in milliseconds. Default: PostgreSQL's
   * `lock_timeout`.
   *
   * @throws Rejected, Busy, QueueFull, IdTaken or InvalidArgument
   */
  async insert(kind: string, args: unknown = {}, options: JobOptions & { maxWait?: number } = {}): Promise<Inserted> {
    // A row and not an error, so that the transaction stays usable.
    const [answer] = inserted(await this.#call("insert_job", { kind, args, ...options, on_reject: "row" }, ANSWER));
    return answer!;
  }

  /** Inserts jobs in one call, all or none. There is one answer for each job, in their order. */
  async insertMany(jobs: Iterable<NewJob>, options: { maxWait?: number } = {}): Promise<Inserted[]> {
    const given = { jobs: Array.from(jobs, document), ...options, on_reject: "row" };
    return inserted(await this.#call("insert_jobs", given, `${ANSWER}, index, earlier`));
  }

  /** What an insert would do, and why. Writes nothing and locks nothing. */
  async explain(kind: string, args: unknown = {}, options: KeyOptions = {}): Promise<Explanation> {
    const [row] = (await this.#call("explain_unique", { kind, args, ...options }, EXPLANATION)) as [Row];
    return {
      outcome: row.outcome,
      uniqueKey: row.unique_key,
      canonical: row.canonical,
      holder: row.holder,
      holderState: row.holder_state,
      holderAge: row.holder_age,
      claimsIn: row.claims_in,
      frees: row.frees,
      replaced: row.replaced,
      newArgs: row.new_args,
      newScheduledAt: row.new_scheduled_at,
    };
  }

  /** The key that a job would get. `null`: it would not be unique. */
  async uniqueKey(kind: string, args: unknown = {}, options: KeyOptions = {}): Promise<string | null> {
    const [row] = await this.#call("unique_key", { kind, args, ...options }, "unique_key");
    return row!.unique_key;
  }

  /**
   * Registers a kind: from now on inserts in every language take these defaults.
   *
   * They replace what the same program registered before. What other programs registered stays, unless it is given anew.
   */
  async register(kind: string, options: KindOptions = {}): Promise<void> {
    await this.#call("register_kind", { kind, ...options, program: this.#program }, "name");
  }

  /** The jobs that a job runs after, with their outputs. Needs the right to read the tables `job` and `job_parent`. */
  async parents<Output = unknown>(id: string): Promise<Parent<Output>[]> {
    return (await this.#call("parents_of", { id }, "id, kind, state, condition, outcome, output")) as Parent<Output>[];
  }

  /**
   * Completes the job at work in the transaction of its effects: both commit, or neither does.
   *
   * Return from the function after the commit.
   *
   * @throws Stale where this run does not count any more, and Busy where another transaction has the job locked: roll back.
   */
  async complete(job: Job, output?: unknown): Promise<void> {
    const outputs = output === undefined ? undefined : [JSON.stringify(output)];
    const [row] = (await this.#call("complete_jobs", { ids: [job.id], runs: [job.run], outputs }, ENDED_COLUMNS)) as [Row];
    if (row.locked) throw new Busy(`job ${job.id} is locked by another transaction`);
    warnOfDropped(job, row.not_stored, (message) => console.warn(`uniqueue: ${message}`));
    if (!row.counted) throw new Stale(`job ${job.id} was taken from this run: its effects must not be committed`);
    job.isCompleted = true;
  }

  /**
   * Waits until a job is final. Wait after the commit of the insert.
   *
   * @throws WaitTimeout
   */
  async wait<Output = unknown>(id: string, options: WaitOptions = {}): Promise<Result<Output>> {
    const [result] = await this.waitAll<Output>([id], options);
    return result!;
  }

  /** Waits until all these jobs are final, with one query at a time for all of them. */
  async waitAll<Output = unknown>(ids: Iterable<string>, options: WaitOptions = {}): Promise<Result<Output>[]> {
    const wanted = [...ids];
    const found = new Map<string, Result<Output>>();
    const until = performance.now() + (options.timeout ?? Infinity);
    for (let interval = FIRST_INTERVAL; ; interval = Math.min(interval * 1.5, LONGEST_INTERVAL)) {
      for (const row of await this.#results(wanted.filter((id) => !found.has(id)))) {
        const { id, state, output, error, replaced_by: replacedBy } = row;
        found.set(id, { id, state, output, error, replacedBy });
      }
      const missing = wanted.filter((id) => !found.has(id));
      if (missing.length === 0) return wanted.map((id) => found.get(id)!);
      const left = until - performance.now();
      if (left <= 0) throw new WaitTimeout(`not final in time: ${missing.join(", ")}`);
      await sleep(Math.min(interval, left), undefined, options.signal ? { signal: options.signal } : {});
    }
  }

  /** The jobs among these that are final or gone. */
  async #results(ids: string[]): Promise<Row[]> {
    const text = `
      SELECT w.id, j.state::text AS state, j.output, j.replaced_by,
        CASE WHEN j.state <> 'completed' THEN j.errors -> -1 ->> 'error' END AS error
      FROM unnest($1::uuid[]) AS w (id)
      LEFT JOIN ${identifier(this.schema)}.job AS j ON j.id = w.id
      WHERE j.id IS NULL OR j.finalized_at IS NOT NULL`;
    return (await this.#source.query(text, [ids])).rows;
  }

  async #call(name: string, options: object, columns: string): Promise<Row[]> {
    try {
      return await call(this.#source, this.schema, name, options, columns);
    } catch (error) {
      throw translated(error);
    }
  }
}

/** A job as an object of `insert_jobs`. */
function document(job: NewJob): Row {
  const { expiresIn, ...others } = job;
  return { ...named(others), ...(expiresIn === undefined ? {} : { expires_in: `PT${(expiresIn / 1000).toFixed(6)}S` }) };
}

function inserted(rows: Row[]): Inserted[] {
  const [first, ...others]: Rejection[] = rows
    .filter((row) => row.outcome === "rejected")
    .map((row) => ({ index: row.index ?? 0, holder: row.id, state: row.state, earlier: row.earlier ?? null }));
  if (first) throw new Rejected([first, ...others]);
  return rows.map((row) => ({
    id: row.id,
    state: row.state,
    duplicate: row.duplicate,
    outcome: row.outcome,
    replaced: row.replaced,
    uniqueKey: row.unique_key,
  }));
}
