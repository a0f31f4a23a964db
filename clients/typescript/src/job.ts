/** What an insert takes, and what the answers contain. */

import type { State, UniquePolicy } from "./policy.js";

/**
 * What a job's unique key can be made from, besides its kind and args.
 *
 * An option that is left out has the default of the job's kind, where the kind is registered, or else the one given here.
 * `null` as a policy gives up that of the kind.
 */
export interface KeyOptions {
  /** The queue. Default: `default`. */
  queue?: string;
  /** Data about the job, such as a trace id. */
  meta?: Record<string, unknown>;
  /** The earliest time at which the job may run. Default: now. */
  scheduledAt?: Date;
  /** How the job's key is made and claimed, and what a duplicate does. Default: the job is not unique. */
  unique?: UniquePolicy | null;
}

/** What a job may say besides its kind and args. */
export interface JobOptions extends KeyOptions {
  /** Higher runs first, -32,768 to 32,767. Default: 0. */
  priority?: number;
  /** How often the job is tried before it is discarded, 1 to 32,767. Default: 25. */
  maxAttempts?: number;
  /** An id of your own, a UUIDv7. The insert of an id that exists returns the existing job, so it is safe to send twice. */
  id?: string;
  /** Holds the job back until `release_jobs`. Default: false. */
  pending?: boolean;
  /** The group of the job within its queue, 1 to 512 bytes. */
  groupKey?: string;
  /** The job starts only while fewer jobs of its group run. */
  groupLimit?: number;
  /** Runs the jobs of the group one at a time, in their order. Default: false. */
  inOrder?: boolean;
  /** A policy that makes the group's key from the job. */
  groupPolicy?: UniquePolicy | null;
  /** The job is discarded if it has not started by this time. Default: it does not expire. */
  expiresAt?: Date;
  /** The same, as a number of milliseconds from when the job is due. */
  expiresIn?: number;
  /**
   * Jobs that must be completed first. If one of them is cancelled or discarded, this job is cancelled.
   *
   * The job is pending until they have ended. In `insertMany` a number is the index of an earlier job of the batch.
   */
  after?: (string | number)[];
  /** Jobs that must have ended first, in any final state. */
  afterFinal?: (string | number)[];
  /** Jobs that must have ended first, at least one cancelled or discarded. If all are completed, this job is cancelled. */
  afterFailed?: (string | number)[];
}

/** After attempt n a job waits `first × factor^(n−1)`, at most `max_interval`, plus or minus `jitter` of it. */
export interface Backoff {
  /** Such as `10s` or `PT10S`. Default: `1s`. */
  first?: string;
  /** From 1. Default: 2. */
  factor?: number;
  /** Default: `1h`, or `first` where that is longer; none with a `factor` of 1. */
  max_interval?: string;
  /** From 0 to 1. Default: 0.1; 0 with a `factor` of 1. */
  jitter?: number;
}

/** The registration of a kind: the defaults that inserts in every language take. */
export interface KindOptions {
  /** The queue of its jobs. Default: `default`. */
  queue?: string;
  priority?: number;
  maxAttempts?: number;
  /** How many milliseconds after the insert its jobs are due. Default: at once. */
  delay?: number;
  /** How many milliseconds a job may run. Default: as long as it takes. */
  timeout?: number;
  /** How long a failed job waits for its retry. Default: 1 s, doubling with each attempt up to an hour. */
  backoff?: Backoff;
  /** Its unique policy. Default: its jobs are not unique. */
  unique?: UniquePolicy;
  /** The policy that makes the keys of their groups. Default: they have no group. */
  groupPolicy?: UniquePolicy;
  /** How many jobs of a group may run at once. */
  groupLimit?: number;
  /** Runs the jobs of a group one at a time, in their order. */
  inOrder?: boolean;
  /** How many milliseconds after they are due its jobs are discarded if they have not started. Default: never. */
  expiresIn?: number;
}

/** A job of `insertMany`. */
export interface NewJob extends JobOptions {
  kind: string;
  /** The payload. Default: `{}`. */
  args?: unknown;
}

export type Outcome = "inserted" | "duplicate" | "updated" | "covered" | "rejected";

/** The answer of an insert: the new job, or the holder of its key. */
export interface Inserted {
  readonly id: string;
  readonly state: State;
  /** Nothing was inserted: the other members are those of the holder. */
  readonly duplicate: boolean;
  readonly outcome: Outcome;
  /** The job that this one replaced. */
  readonly replaced: string | null;
  readonly uniqueKey: string | null;
}

/** The end of a job. */
export interface Result<Output = unknown> {
  readonly id: string;
  /** `completed`, `cancelled` or `discarded`. `null`: no such job exists, so its outcome is unknown. */
  readonly state: State | null;
  /** What a job that completed returned. */
  readonly output: Output | null;
  /** The last error, or the reason, of a job that did not complete. */
  readonly error: string | null;
  /** The job that replaced this one. */
  readonly replacedBy: string | null;
}

/** A parent of a job. */
export interface Parent<Output = unknown> {
  id: string;
  /** Null: the job is deleted, and so are its state and output. */
  kind: string | null;
  state: State | null;
  /** In which list the job named it: `after`, `afterFinal` or `afterFailed`. */
  condition: "completed" | "final" | "failed";
  /** The final state that counts for the job. Null: the job still waits for this parent. */
  outcome: State | null;
  /** The output, if the parent completed with one. */
  output: Output | null;
}

/** What an insert would do, and why. */
export interface Explanation {
  readonly outcome: Outcome;
  readonly uniqueKey: string | null;
  /** The text that the key is made from. */
  readonly canonical: string | null;
  /** The job that claims the key. */
  readonly holder: string | null;
  readonly holderState: State | null;
  /** In milliseconds. */
  readonly holderAge: number | null;
  /** The states in which the holder claims the key. */
  readonly claimsIn: State[] | null;
  /** When the holder's claim ends, in words. */
  readonly frees: string | null;
  readonly replaced: string | null;
  /** What an update would make of the holder's args. */
  readonly newArgs: unknown;
  readonly newScheduledAt: Date | null;
}
