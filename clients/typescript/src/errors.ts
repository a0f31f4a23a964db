/** The errors of the queue. Errors of the database that say nothing about a queue stay those of the driver. */

import type { State } from "./policy.js";

/** An error of the queue. */
export class UniqueueError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A duplicate that was rejected. */
export interface Rejection {
  /** Its place in the batch, from 0. */
  readonly index: number;
  /** The job that claims the key. `null`: the job that was met is in the batch itself. */
  readonly holder: string | null;
  /** The holder's state. */
  readonly state: State | null;
  /** The place of the job that was met, where it is in the batch itself. */
  readonly earlier: number | null;
}

/**
 * A duplicate under `reject`, or one that could not replace or change its holder. Nothing was inserted.
 *
 * The transaction stays usable.
 */
export class Rejected extends UniqueueError {
  readonly holder: string | null;
  readonly state: State | null;

  /** `rejections` has the rejected jobs in the order of the batch. */
  constructor(readonly rejections: readonly [Rejection, ...Rejection[]]) {
    const [first, ...others] = rejections;
    const met = first.holder === null ? `job ${first.earlier} of the same batch` : `job ${first.holder} (${first.state})`;
    super(`duplicate: the unique key is held by ${met}${others.length ? `, and ${others.length} more were rejected` : ""}`);
    this.holder = first.holder;
    this.state = first.state;
  }
}

/** The queue has as many waiting jobs as its limit allows. Nothing was inserted: try again later. */
export class QueueFull extends UniqueueError {
  constructor(
    readonly queue: string,
    readonly maxWaiting: number,
    readonly room: number,
    options?: ErrorOptions,
  ) {
    super(`queue ${queue} is full: at most ${maxWaiting} of its jobs may wait, and it has room for ${room}`, options);
  }
}

/** Another open transaction holds the key, or locks its holder, for longer than `maxWait`. Try again. */
export class Busy extends UniqueueError {}

/** Another job has the id that was given. */
export class IdTaken extends UniqueueError {}

/** There is no such job to run after. Nothing was inserted. */
export class UnknownParent extends UniqueueError {}

/** An argument, or a member of a policy, is outside its limits. The text names it. */
export class InvalidArgument extends UniqueueError {}

/** The job was taken from this run: it was cancelled, or came back after its reservation. */
export class Stale extends UniqueueError {}

/** The job was not final in time. It goes on. */
export class WaitTimeout extends UniqueueError {}

/** The error of the queue that the database's error means, or that error itself. */
export function translated(error: unknown): unknown {
  if (!(error instanceof Error) || !("code" in error)) return error;
  const { code, detail, constraint } = error as { code?: string; detail?: string; constraint?: string };
  if (code === "UQ003") {
    const { queue, max_waiting, room } = JSON.parse(detail ?? "{}");
    return new QueueFull(queue, max_waiting, room, { cause: error });
  }
  if (code === "55P03") return new Busy(error.message, { cause: error });
  if (code === "23505" && constraint === "job_pkey") return new IdTaken(error.message, { cause: error });
  if (code === "23503" && constraint === "job_parent_parent") return new UnknownParent(error.message, { cause: error });
  if (code === "22023") return new InvalidArgument(error.message, { cause: error });
  return error;
}

/** Whether the database refuses a value. */
export function isOfData(error: unknown): boolean {
  return /^22...$/.test((error as { code?: string }).code ?? "");
}

/** Whether the same call can succeed later: the connection, a lock or a resource is at fault, and no job. */
export function isOfTheTime(error: unknown): boolean {
  const { severity, code = "" } = error as { severity?: string; code?: string };
  return severity === undefined || /^(08...|0A000|40...|53...|55P03|57...)$/.test(code);
}

/** Whether the database refuses a call, as where a right or a function is missing. */
export function isRefused(error: unknown): boolean {
  return /^(42|3F)...$/.test((error as { code?: string }).code ?? "");
}
