/** A job at work. */

import type { Row } from "./call.js";

/** The job that a function works on. */
export class Job<Args = any> {
  readonly id: string;
  /** The number of this run. What is said of another run of the job does not count. */
  readonly run: number;
  readonly kind: string;
  readonly queue: string;
  readonly args: Args;
  readonly meta: Record<string, unknown>;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The errors of earlier attempts, the oldest first. */
  readonly errors: readonly { attempt: number; at: string; error: string }[];
  readonly createdAt: Date;
  readonly scheduledAt: Date;
  readonly uniqueKey: string | null;
  readonly groupKey: string | null;
  /** What the job reports of itself, such as `{ done: 3, total: 10 }`. Set it: the next heartbeat sends it. */
  progress: unknown;
  /** Whether `Client.complete` has completed it. */
  isCompleted = false;

  /** Aborted when the work is to stop: the job was cancelled, timed out or is given back. */
  constructor(
    row: Row,
    readonly signal: AbortSignal,
  ) {
    this.id = row.id;
    this.run = row.run;
    this.kind = row.kind;
    this.queue = row.queue;
    this.args = row.args;
    this.meta = row.meta;
    this.attempt = row.attempt;
    this.maxAttempts = row.max_attempts;
    this.errors = row.errors;
    this.createdAt = row.created_at;
    this.scheduledAt = row.scheduled_at;
    this.uniqueKey = row.unique_key;
    this.groupKey = row.group_key;
    this.progress = row.progress;
  }
}

/** What works a kind. */
export type Work<Args = any> = (job: Job<Args>) => unknown;

/** Reports what goes on all the same. */
export type Warn = (message: string, error?: unknown) => void;

/** Reports the values of a job that PostgreSQL could not store. */
export function warnOfDropped(job: Job, values: string | null, warn: Warn): void {
  if (values !== null) warn(`job ${job.id} (${job.kind}) goes on without values: ${values}`);
}

/** A job from its fetch until its function has returned and its result is recorded. */
export class Run {
  readonly job: Job;
  readonly #abort = new AbortController();
  /** Whether the job is reserved for this run, so that its result counts. */
  isHeld = true;
  /** Whether its result waits to be recorded. */
  isRecording = false;
  /** Whether its function has returned. */
  hasReturned = false;
  /** How many milliseconds its result waits to be sent again. 0: the database has not refused it. */
  waits = 0;
  /** The progress that the database could not store, as JSON. */
  dropped: string | null = null;

  constructor(
    row: Row,
    readonly timeout: number | undefined,
  ) {
    this.job = new Job(row, this.#abort.signal);
  }

  /** Tells the function to stop. */
  stop(reason: string): void {
    this.#abort.abort(new Error(`job ${this.job.id} was stopped: ${reason}`));
  }
}
