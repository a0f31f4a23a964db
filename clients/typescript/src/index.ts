/** Unique jobs in PostgreSQL, inserted in your own transactions. */

export type { Queryable } from "./call.js";
export { Client, type WaitOptions } from "./client.js";
export {
  Busy,
  IdTaken,
  InvalidArgument,
  QueueFull,
  Rejected,
  type Rejection,
  Stale,
  UniqueueError,
  UnknownParent,
  WaitTimeout,
} from "./errors.js";
export type { Backoff, Explanation, Inserted, JobOptions, KeyOptions, KindOptions, NewJob, Parent, Result } from "./job.js";
export { Cancel, Discard, Outcome, Retry, Snooze } from "./outcome.js";
export type { State, UniquePolicy, Update } from "./policy.js";
export type { Job, Work } from "./running.js";
export type { Connection, Pool } from "./session.js";
export { Worker, type WorkerOptions } from "./worker.js";
