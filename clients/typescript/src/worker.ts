/**
 * A worker: fetches jobs, runs the function of their kind, and records how they end.
 *
 * Two connections serve a process. The main one fetches and records. The other one listens, extends reservations and does
 * maintenance, so that a slow fetch delays no heartbeat. A job keeps its slot until its function has returned and its
 * result is recorded. While the database is away, results wait. A result that comes too late does not count.
 */

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { type Row, call } from "./call.js";
import type { KindOptions } from "./job.js";
import { GIVE_BACK, Outcome, type Verdict, failed, returned, thrown } from "./outcome.js";
import { Run, type Work } from "./running.js";
import { type Pool, Session } from "./session.js";
import { Signal } from "./signal.js";

/** Times are in milliseconds. */
export interface WorkerOptions {
  schema?: string;
  /** The queues, in the order in which they are asked. Default: those of the kinds. */
  queues?: string[];
  /** How many jobs run at once. Default: 10. */
  concurrency?: number;
  /** The name of this process in views, which no other worker has. Default: host, process id, a random number. */
  name?: string;
  /**
   * How long a job is reserved. If the process dies, its jobs come back after that. A heartbeat extends the reservation of a
   * running job three times as often. Default: a minute.
   */
  reserve?: number;
  /** How long an idle worker waits between fetches where no notification wakes it. Default: 5 s. */
  poll?: number;
  /** How long running jobs have to end after a stop. Then they are given back. Default: 25 s. */
  stopTimeout?: number;
  /** Whether to listen for notifications. Set it to false behind a transaction pooler. Default: true. */
  listen?: boolean;
  /** Whether to register the kinds at the start, which needs the right to execute `register_kind`. Default: true. */
  register?: boolean;
  /** Where the worker reports what it gets over by itself. Default: `console`. */
  log?: Pick<Console, "info" | "warn">;
}

const LONGEST_BACKOFF = 5000;
/** In one fetch, and in one call that records results. */
const MOST_JOBS = 1000;

/** Works the jobs of some kinds. It takes two connections of the pool. */
export class Worker {
  readonly name: string;
  readonly #options: Required<Omit<WorkerOptions, "name" | "queues">>;
  readonly #queues: string[] | undefined;
  readonly #kinds = new Map<string, { work: Work; options: KindOptions }>();
  readonly #main: Session;
  readonly #side: Session;
  readonly #runs = new Map<Run, Promise<void>>();
  readonly #results: { run: Run; verdict: Verdict; recorded: () => void }[] = [];
  readonly #wake = new Signal();
  readonly #told = new Signal();
  readonly #hasResults = new Signal();
  readonly #hurry = new Signal();
  #id: string | null = null;
  #isStopping = false;
  #isEnded = false;

  constructor(pool: Pool, options: WorkerOptions = {}) {
    const { name, queues, ...others } = options;
    this.name = name ?? `${hostname()}:${process.pid}:${Math.floor(Math.random() * 1e6)}`;
    this.#queues = queues;
    this.#options = {
      schema: "uniqueue",
      concurrency: 10,
      reserve: 60_000,
      poll: 5000,
      stopTimeout: 25_000,
      listen: true,
      register: true,
      log: console,
      ...others,
    };
    const { schema, listen } = this.#options;
    this.#main = new Session(pool);
    const channels = listen ? [`${schema}.job`, `${schema}.control`] : [];
    const notified = (channel: string, payload: string) => {
      if (channel === `${schema}.job`) this.#wake.set();
      else if (payload === this.#id) this.#told.set();
    };
    this.#side = new Session(pool, channels, notified, () => this.#wake.set());
  }

  /** Works a kind with a function, and registers the kind with these options. */
  job<Args = any>(kind: string, options: KindOptions, work: Work<Args>): this {
    this.#kinds.set(kind, { work, options });
    return this;
  }

  /** Works until SIGTERM or SIGINT, then stops as `stop` does. A second signal gives the running jobs back at once. */
  async run(): Promise<void> {
    const stop = () => this.stop();
    process.on("SIGTERM", stop).on("SIGINT", stop);
    try {
      await this.serve();
    } finally {
      process.off("SIGTERM", stop).off("SIGINT", stop);
    }
  }

  /**
   * Fetches no more, lets the running jobs end, and gives back those that take longer than `stopTimeout`.
   *
   * A second call gives them back at once.
   */
  stop(): void {
    if (this.#isStopping) this.#hurry.set();
    this.#isStopping = true;
    this.#wake.set();
  }

  /** Works until `stop`, or until the database refuses what the worker asks of it. */
  async serve(): Promise<void> {
    const { schema, register } = this.#options;
    try {
      for (const [kind, { options }] of register ? this.#kinds : []) {
        await call(this.#main, schema, "register_kind", { kind, ...options, registered_by: this.name }, "name");
      }
      await this.#serve();
      // Otherwise the worker counts as alive until its lease ends.
      await call(this.#main, schema, "stop_worker", { worker: this.name }).catch(() => {});
    } finally {
      await Promise.all([this.#main.close(), this.#side.close()]);
    }
  }

  async #serve(): Promise<void> {
    const fetching = this.#fetchJobs();
    const failures: unknown[] = [];
    const tasks = [fetching, this.#attend(), this.#recordResults()].map((task) =>
      task.catch((error: unknown) => {
        if (!this.#isEnded) failures.push(error);
      }),
    );
    await Promise.race(tasks);
    this.stop();
    await this.#letJobsEnd(fetching);
    this.#isEnded = true;
    this.#hasResults.set();
    this.#told.set();
    await within(Promise.all(tasks), LONGEST_BACKOFF);
    if (failures.length > 0) throw failures[0];
  }

  // Fetching.

  async #fetchJobs(): Promise<void> {
    const { concurrency, reserve, listen, poll } = this.#options;
    const queues = this.#queues ?? [...new Set([...this.#kinds.values()].map(({ options }) => options.queue ?? "default"))];
    const given = { queues, worker: this.name, kinds: [...this.#kinds.keys()], reserve, listens: listen };
    let empty = 0;
    while (!this.#isStopping) {
      this.#wake.clear();
      const free = Math.min(concurrency - this.#runs.size, MOST_JOBS);
      if (free > 0) {
        const rows = await this.#insist(this.#main, "fetch_jobs", { ...given, count: free });
        for (const row of rows) this.#begin(row);
        empty = rows.length > 0 ? 0 : empty + 1;
      }
      // The first empty answer asks to be notified. A job that came just before that is found by a second fetch.
      if (free <= 0 || empty > Number(listen)) await this.#wake.wait(poll);
    }
  }

  #begin(row: Row): void {
    this.#id = row.worker_id;
    const run = new Run(row);
    this.#runs.set(run, this.#work(run));
  }

  async #work(run: Run): Promise<void> {
    const { work, options } = this.#kinds.get(run.job.kind)!;
    const end = (async () => returned(await work(run.job)))().catch((error: unknown) => {
      if (!(error instanceof Outcome)) this.#log("warn", `job ${run.job.id} (${run.job.kind}) failed`, error);
      return thrown(error);
    });
    const verdict = await within(end, options.timeout);
    if (verdict === null) run.stop("timed out");
    if (run.isHeld && !run.isRecording && !run.job.isCompleted) {
      await this.#record(run, verdict ?? failed(`timed out after ${options.timeout} ms`));
    }
    // A function that was told to stop keeps its slot until it returns.
    await end;
    this.#runs.delete(run);
    this.#wake.set();
  }

  // Recording.

  /** Records the end of a run, together with those that end at the same time. */
  #record(run: Run, verdict: Verdict): Promise<void> {
    run.isRecording = true;
    return new Promise((recorded) => {
      this.#results.push({ run, verdict, recorded });
      this.#hasResults.set();
    });
  }

  async #recordResults(): Promise<void> {
    while (!this.#isEnded) {
      await this.#hasResults.wait();
      this.#hasResults.clear();
      while (this.#results.length > 0) {
        const batch = this.#results.splice(0, MOST_JOBS);
        await this.#finish(batch);
        for (const { recorded } of batch) recorded();
      }
    }
  }

  async #finish(batch: { run: Run; verdict: Verdict }[]): Promise<void> {
    const given = {
      ids: batch.map(({ run }) => run.job.id),
      runs: batch.map(({ run }) => run.job.run),
      outcomes: batch.map(({ verdict }) => verdict.outcome),
      delays: batch.map(({ verdict }) => verdict.delay),
      errors: batch.map(({ verdict }) => verdict.error),
      outputs: batch.map(({ verdict }) => verdict.output),
      progress: batch.map(({ run }) => this.#progress(run)),
    };
    let rows: Row[];
    try {
      rows = await this.#insist(this.#main, "finish_jobs", given);
    } catch (error) {
      if (!isOfData(error)) throw error;
      // A result that cannot be stored does not hold up the others.
      for (const { run, verdict } of batch) {
        const unstorable = failed(`the result cannot be stored: ${(error as Error).message}`);
        await this.#finish([{ run, verdict: batch.length > 1 ? verdict : unstorable }]);
      }
      return;
    }
    batch.forEach(({ run }, i) => {
      run.isHeld = false;
      const { counted, state } = rows[i]!;
      if (!counted) this.#log("info", `the result of job ${run.job.id} does not count: the job is ${state ?? "gone"}`);
    });
  }

  /** Waits for the running jobs, and gives back those that take too long. */
  async #letJobsEnd(fetching: Promise<void>): Promise<void> {
    const allEnd = Promise.allSettled([fetching]).then(() => Promise.allSettled(this.#runs.values()));
    await Promise.race([within(allEnd, this.#options.stopTimeout), this.#hurry.wait()]);
    const held = [...this.#runs.keys()].filter((run) => run.isHeld && !run.isRecording);
    for (const run of this.#runs.keys()) run.stop("the worker stops");
    const given = Promise.all(held.map((run) => this.#record(run, GIVE_BACK)));
    await within(given, LONGEST_BACKOFF);
  }

  // Beside the work.

  /** Listens, extends reservations and does maintenance. */
  async #attend(): Promise<void> {
    let maintainAt = 0;
    let extendAt = 0;
    while (!this.#isEnded) {
      if (performance.now() >= maintainAt) {
        const next = "extract(epoch FROM next_in)::float8 * 1000 AS next_in";
        const [row] = await this.#insist(this.#side, "maintain", { worker: this.name }, next);
        maintainAt = performance.now() + row!.next_in;
      }
      if (performance.now() >= extendAt || this.#told.isSet) {
        this.#told.clear();
        await this.#extend();
        extendAt = performance.now() + this.#options.reserve / 3;
      }
      if (!this.#isEnded) await this.#told.wait(Math.min(maintainAt, extendAt) - performance.now());
    }
  }

  async #extend(): Promise<void> {
    const held = [...this.#runs.keys()].filter((run) => run.isHeld);
    if (held.length === 0) return;
    const rows = await this.#insist(this.#side, "extend_jobs", {
      ids: held.map((run) => run.job.id),
      runs: held.map((run) => run.job.run),
      reserve: this.#options.reserve,
      progress: held.map((run) => this.#progress(run)),
    });
    held.forEach((run, i) => {
      const { held: isHeld, state } = rows[i]!;
      if (isHeld || !run.isHeld || run.isRecording) return;
      this.#log("warn", `job ${run.job.id} is stopped: it is ${state ?? "deleted"}`);
      run.isHeld = false;
      run.stop(state ?? "deleted");
    });
  }

  #progress(run: Run): string | null {
    try {
      return run.job.progress === null ? null : (JSON.stringify(run.job.progress) ?? null);
    } catch (error) {
      this.#log("warn", `the progress of job ${run.job.id} is not JSON`, error);
      return null;
    }
  }

  /** Calls a function, again and again while the database is away. */
  async #insist(session: Session, name: string, given: object, columns?: string): Promise<Row[]> {
    for (let backoff = 100; ; backoff = Math.min(backoff * 2, LONGEST_BACKOFF)) {
      try {
        return await call(session, this.#options.schema, name, given, columns);
      } catch (error) {
        if (isOfData(error) || isRefused(error) || this.#isEnded) throw error;
        this.#log("warn", `the database did not answer, trying again: ${(error as Error).message}`);
      }
      await sleep(backoff * (0.5 + Math.random() / 2));
    }
  }

  #log(level: "info" | "warn", message: string, error?: unknown): void {
    this.#options.log[level](`uniqueue: ${message}`, ...(error === undefined ? [] : [error]));
  }
}

/** The answer of a promise, or null after so many milliseconds. */
async function within<T>(promise: Promise<T>, timeout: number | undefined): Promise<T | null> {
  if (timeout === undefined) return promise;
  const timer = new AbortController();
  const late = sleep(timeout, null, { signal: timer.signal }).catch(() => null);
  return Promise.race([promise, late]).finally(() => timer.abort());
}

/** Whether the database refuses a value. */
function isOfData(error: unknown): boolean {
  return /^22...$/.test((error as { code?: string }).code ?? "");
}

/** Whether the database refuses a call, as where a right or a function is missing. */
function isRefused(error: unknown): boolean {
  return /^(42|3F)...$/.test((error as { code?: string }).code ?? "");
}
