/**
 * A worker: fetches jobs, runs the function of their kind, and records how they end.
 *
 * Two connections serve a process. The main connection records results and fetches jobs, in one statement if there is
 * both. The second connection listens, extends reservations and does maintenance, so that a slow fetch delays no heartbeat. A job keeps its slot until its function has returned and its
 * result is recorded. While the database is away, results wait. A result that comes too late does not count.
 */

import { hostname } from "node:os";

import { ENDED_COLUMNS, FETCHED_COLUMNS, MAIN_FILE, type Row, call, exchange } from "./call.js";
import { InvalidArgument, isOfData, isOfTheTime, isRefused } from "./errors.js";
import type { KindOptions } from "./job.js";
import { INTERRUPT, type Verdict, failed } from "./outcome.js";
import { type Recording, endOf, freeSlots, nextBatch, progressOf, resultsOf } from "./recording.js";
import { Run, type Warn, type Work, warnOfDropped } from "./running.js";
import { type Pool, Session } from "./session.js";
import { Signal, within } from "./signal.js";

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
  /** The program that they are registered for. Default: the main file of the process, if it has one. */
  program?: string;
  /** Where the worker reports what it gets over by itself. Default: `console`. */
  log?: Pick<Console, "info" | "warn">;
}

/** The connections that a worker keeps. */
const CONNECTIONS = 2;
const LONGEST_BACKOFF = 5000;

/** Works the jobs of some kinds. It takes two connections of the pool. */
export class Worker {
  readonly name: string;
  readonly #pool: Pool;
  readonly #options: Required<Omit<WorkerOptions, "name" | "queues" | "program">>;
  readonly #queues: string[] | undefined;
  readonly #program: string | undefined;
  readonly #kinds = new Map<string, { work: Work; options: KindOptions }>();
  readonly #main: Session;
  readonly #side: Session;
  readonly #runs = new Map<Run, Promise<void>>();
  #results: Recording[] = [];
  readonly #wake = new Signal();
  readonly #told = new Signal();
  readonly #hasStopped = new Signal();
  readonly #stopped = new Signal();
  readonly #hurry = new Signal();
  readonly #ended = new Signal();
  #id: string | null = null;
  #failure: unknown = null;

  constructor(pool: Pool, options: WorkerOptions = {}) {
    const { name, queues, program, ...others } = options;
    this.name = name ?? `${hostname()}:${process.pid}:${Math.floor(Math.random() * 1e6)}`;
    this.#queues = queues;
    this.#program = program || MAIN_FILE;
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
    this.#pool = pool;
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
    if (this.#stopped.isSet) this.#hurry.set();
    this.#stopped.set();
    this.#wake.set();
  }

  /**
   * Works until `stop`, or until the database refuses what the worker asks of it.
   *
   * @throws InvalidArgument where the pool has too few connections
   */
  async serve(): Promise<void> {
    const max = this.#pool.options?.max ?? Infinity;
    if (max < CONNECTIONS) throw new InvalidArgument(`a worker keeps ${CONNECTIONS} connections, and the pool has at most ${max}`);
    if (max === CONNECTIONS) this.#log("info", `a function that uses the pool waits for ever: the worker keeps its ${max} connections`);
    const watch = this.#watchLoop();
    try {
      await Promise.race([this.#register(), this.#stopped.wait()]);
      await this.#serve();
    } finally {
      clearInterval(watch);
      this.#main.close();
      this.#side.close();
    }
  }

  async #register(): Promise<void> {
    const { schema, register } = this.#options;
    for (const [kind, { options }] of register ? this.#kinds : []) {
      const given = { kind, ...options, registered_by: this.name, program: this.#program };
      await call(this.#main, schema, "register_kind", given, "name");
    }
  }

  async #serve(): Promise<void> {
    const tasks = [this.#exchange(), this.#attend()].map((task) =>
      task.catch((error: unknown) => {
        if (!this.#ended.isSet) this.#failure ??= error;
      }),
    );
    await Promise.race([...tasks, this.#stopped.wait()]);
    if (!this.#stopped.isSet) this.stop();
    await this.#letJobsEnd(tasks[0]!);
    this.#ended.set();
    this.#wake.set();
    this.#told.set();
    // Otherwise the worker counts as alive until its lease ends.
    const leave = () => call(this.#main, this.#options.schema, "stop_worker", { worker: this.name }, "stop_worker");
    await within(Promise.all(tasks).then(leave).catch(() => {}), LONGEST_BACKOFF);
    if (this.#failure !== null) throw this.#failure;
  }

  // Recording and fetching.

  /** Records results and fetches jobs for the free slots, until the worker has stopped and no run is left. */
  async #exchange(): Promise<void> {
    const { concurrency, reserve, listen, poll } = this.#options;
    const queues = this.#queues ?? [...new Set([...this.#kinds.values()].map(({ options }) => options.queue ?? "default"))];
    const asks = { queues, worker: this.name, kinds: [...this.#kinds.keys()], reserve, listens: listen };
    let empty = 0;
    while (!this.#ended.isSet) {
      this.#wake.clear();
      const batch = nextBatch(this.#results);
      const sent = new Set(batch.map(({ run }) => run));
      const free = this.#stopped.isSet ? 0 : freeSlots([...this.#runs.keys()], sent, concurrency);
      if (this.#stopped.isSet) this.#hasStopped.set();
      const rows = await this.#recordAndFetch(batch, { ...asks, count: free });
      for (const row of rows) this.#begin(row);
      empty = rows.length > 0 || batch.length > 0 ? 0 : empty + 1;
      // The first empty answer asks to be notified. A job that came just before that is found by a second fetch.
      const isIdle = free <= rows.length || empty > Number(listen);
      if (isIdle && this.#results.length === 0 && !this.#ended.isSet) await this.#wake.wait(poll);
    }
  }

  async #recordAndFetch(batch: Recording[], asks: { count: number }): Promise<Row[]> {
    if (batch.length > 0 && asks.count > 0) {
      try {
        const { ended, started } = await exchange(this.#main, this.#options.schema, resultsOf(batch, this.#warn), asks);
        this.#settle(batch, ended);
        return started;
      } catch {
        // The two calls follow separately, so that an error of one does not stop the other.
      }
    }
    if (batch.length > 0) await this.#finish(batch);
    if (asks.count === 0) return [];
    try {
      return await this.#insist(this.#main, "fetch_jobs", asks, FETCHED_COLUMNS);
    } catch (error) {
      // The worker stops. Runs that are under way can still end.
      if (!this.#stopped.isSet) this.#failure ??= error;
      this.stop();
      return [];
    }
  }

  #begin(row: Row): void {
    this.#id = row.worker_id;
    const run = new Run(row, this.#kinds.get(row.kind)!.options.timeout ?? row.timeout ?? undefined);
    this.#runs.set(run, this.#work(run));
  }

  async #work(run: Run): Promise<void> {
    const { work } = this.#kinds.get(run.job.kind)!;
    const end = endOf(run, work, this.#warn);
    void end.then(() => (run.hasReturned = true));
    const verdict = await within(end, run.timeout);
    if (verdict === null) run.stop("timed out");
    if (run.isHeld && !run.isRecording) {
      await this.#record(run, verdict ?? failed(`timed out after ${run.timeout} ms`, { code: "timed_out" }));
    }
    // A function that was told to stop keeps its slot until it returns.
    await end;
    if (this.#runs.delete(run)) this.#wake.set();
  }

  /** Records the end of a run, together with those that end at the same time. */
  #record(run: Run, verdict: Verdict): Promise<void> {
    run.isRecording = true;
    return new Promise((recorded) => {
      this.#results.push({ run, verdict, recorded });
      this.#wake.set();
    });
  }

  async #finish(batch: Recording[]): Promise<void> {
    let rows: Row[];
    try {
      rows = await this.#insist(this.#main, "finish_jobs", resultsOf(batch, this.#warn), ENDED_COLUMNS);
    } catch (error) {
      if (isRefused(error) || this.#ended.isSet) throw error;
      // A result that the database refuses does not hold up the others. A trigger may let it pass later.
      if (batch.length > 1) {
        for (const result of batch) await this.#finish([result]);
        return;
      }
      const [result] = batch as [Recording];
      this.#warn(`the result of job ${result.run.job.id} is refused`, error);
      const instead = failed(`the result is refused: ${(error as Error).message}`);
      this.#sendLater(result, isOfData(error) ? instead : result.verdict);
      return;
    }
    this.#settle(batch, rows);
  }

  /** Frees the slots of runs whose results are recorded. */
  #settle(batch: Recording[], rows: Row[]): void {
    const settled = new Set(batch.map(({ run }) => run));
    this.#results = this.#results.filter(({ run }) => !settled.has(run));
    batch.forEach((result, i) => {
      const { run, recorded } = result;
      const { counted, state, locked, not_stored: dropped } = rows[i]!;
      if (locked) return this.#sendLater(result);
      warnOfDropped(run.job, dropped, this.#warn);
      run.isHeld = false;
      if (run.hasReturned) this.#runs.delete(run);
      recorded();
      const isAsTold = run.job.isCompleted && (state === "completed" || state === null);
      if (!counted && !isAsTold) this.#log("info", `the result of job ${run.job.id} does not count: the job is ${state ?? "gone"}`);
    });
  }

  /** Sends a result again that the database did not record. Its job keeps no slot once its function has returned. */
  #sendLater(result: Recording, verdict = result.verdict): void {
    const { run } = result;
    run.waits = Math.min(2 * run.waits || 100, LONGEST_BACKOFF);
    this.#results = this.#results.filter((other) => other !== result);
    setTimeout(() => {
      this.#results.push({ ...result, verdict });
      this.#wake.set();
    }, run.waits).unref();
  }

  /** Waits for the running jobs, and gives back those that take too long. */
  async #letJobsEnd(exchanging: Promise<void>): Promise<void> {
    const allEnd = async () => {
      await this.#hasStopped.wait(); // The last fetch has answered.
      while (this.#runs.size > 0) await Promise.all(this.#runs.values());
    };
    await Promise.race([within(allEnd(), this.#options.stopTimeout), this.#hurry.wait(), exchanging]);
    const held = [...this.#runs.keys()].filter((run) => run.isHeld && !run.isRecording);
    for (const run of this.#runs.keys()) run.stop("the worker stops");
    const given = Promise.all(held.map((run) => this.#record(run, INTERRUPT)));
    await Promise.race([within(given, LONGEST_BACKOFF), exchanging]);
  }

  // Beside the work.

  /** Listens, extends reservations and does maintenance. */
  async #attend(): Promise<void> {
    let maintainAt = 0;
    let extendAt = 0;
    while (!this.#ended.isSet) {
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
      if (!this.#ended.isSet) await this.#told.wait(Math.min(maintainAt, extendAt) - performance.now());
    }
  }

  /** Logs when the event loop stood still, as it does while a function blocks it. */
  #watchLoop(): NodeJS.Timeout {
    const interval = this.#options.reserve / 6;
    let seenAt = performance.now();
    return setInterval(() => {
      const late = performance.now() - seenAt - interval;
      seenAt = performance.now();
      if (late < 2 * interval) return;
      this.#warn(`the event loop stood still for ${late.toFixed()} ms, without heartbeats: jobs whose reservation ended start again`);
    }, interval).unref();
  }

  async #extend(): Promise<void> {
    const held = [...this.#runs.keys()].filter((run) => run.isHeld);
    if (held.length === 0) return;
    const progress = held.map((run) => progressOf(run, this.#warn));
    const given = {
      ids: held.map((run) => run.job.id),
      runs: held.map((run) => run.job.run),
      reserve: this.#options.reserve,
      progress,
    };
    const rows = await this.#insist(this.#side, "extend_jobs", given, "held, state, not_stored");
    held.forEach((run, i) => {
      const { held: isHeld, state, not_stored: dropped } = rows[i]!;
      if (dropped !== null) run.dropped = progress[i]!;
      warnOfDropped(run.job, dropped, this.#warn);
      if (run.job.isCompleted && state === "completed") return;
      if (isHeld || !run.isHeld || run.isRecording) return;
      this.#warn(`job ${run.job.id} is stopped: it is ${state ?? "deleted"}`);
      run.isHeld = false;
      run.stop(state ?? "deleted");
    });
  }

  /** Calls a function, again and again while the database is away: results until the worker has ended, a fetch until it stops. */
  async #insist(session: Session, name: string, given: object, columns: string): Promise<Row[]> {
    const over = name === "fetch_jobs" ? this.#stopped : this.#ended;
    for (let backoff = 100; ; backoff = Math.min(backoff * 2, LONGEST_BACKOFF)) {
      try {
        return await call(session, this.#options.schema, name, given, columns);
      } catch (error) {
        const isOfOne = name === "finish_jobs" && !isOfTheTime(error);
        if (isOfData(error) || isRefused(error) || isOfOne || over.isSet) throw error;
        this.#warn(`the database did not answer, trying again: ${(error as Error).message}`);
      }
      await over.wait(backoff * (0.5 + Math.random() / 2));
    }
  }

  readonly #warn: Warn = (message, error) => this.#log("warn", message, error);

  #log(level: "info" | "warn", message: string, error?: unknown): void {
    try {
      this.#options.log[level](`uniqueue: ${message}`, ...(error === undefined ? [] : [error]));
    } catch {
      // A log that fails stops no job.
    }
  }
}
