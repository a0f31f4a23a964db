/**
 * How a job ends.
 *
 * A function that returns has completed its job, and what it returns is the job's output. A function that throws is tried
 * again. The outcomes below say something else: return one, or throw it.
 */

/** An end of a job other than success or failure. Delays are in milliseconds. */
export abstract class Outcome extends Error {
  abstract readonly outcome: "retry" | "snooze" | "cancel" | "discard";
  readonly delay: number | null = null;
  /** A short word that is stored with the reason. */
  readonly code: string | null = null;
}

/** Tries the job again, or discards it where no attempt is left. Default: after 1 s, doubling with each attempt up to an hour. */
export class Retry extends Outcome {
  readonly outcome = "retry";
  override readonly delay: number | null;
  override readonly code: string | null;

  constructor(reason: string, options: { after?: number; code?: string } = {}) {
    super(reason);
    this.delay = options.after ?? null;
    this.code = options.code ?? null;
  }
}

/** Runs the job again after a time. Uses up no attempt. */
export class Snooze extends Outcome {
  readonly outcome = "snooze";

  constructor(override readonly delay: number) {
    super();
  }
}

/** Cancels the job: the work is no longer wanted. */
export class Cancel extends Outcome {
  readonly outcome = "cancel";
  override readonly code: string | null;

  constructor(reason: string, options: { code?: string } = {}) {
    super(reason);
    this.code = options.code ?? null;
  }
}

/** Discards the job: the work cannot succeed. */
export class Discard extends Outcome {
  readonly outcome = "discard";
  override readonly code: string | null;

  constructor(reason: string, options: { code?: string } = {}) {
    super(reason);
    this.code = options.code ?? null;
  }
}

/** The end of a run, as `finish_jobs` takes it. */
export interface Verdict {
  readonly outcome: "complete" | "interrupt" | Outcome["outcome"];
  readonly delay: number | null;
  readonly error: string | null;
  readonly output: string | null;
  /** The details that are stored with the error: its code, or the type of the thrown value. */
  readonly details?: string;
}

export const INTERRUPT: Verdict = { outcome: "interrupt", delay: null, error: null, output: null };

/** The end of a run whose job `Client.complete` completed in a transaction that did not commit. */
export const NOT_COMMITTED = failed("the transaction that completed the job did not commit", { code: "not_committed" });

/** What a function returned means. */
export function returned(value: unknown): Verdict {
  if (value instanceof Outcome) return thrown(value);
  try {
    return { outcome: "complete", delay: null, error: null, output: JSON.stringify(value) ?? null };
  } catch (error) {
    return failed(`the output of the job is not JSON: ${text(error)}`);
  }
}

/** What a function threw means. */
export function thrown(error: unknown): Verdict {
  if (!(error instanceof Outcome)) {
    const type = error instanceof Error ? String(error.constructor?.name ?? "").slice(0, 64) : "";
    return failed(text(error), type ? { type } : undefined);
  }
  const reason = error.outcome === "snooze" ? null : storable(String(error.message));
  const delay = error.delay === null ? null : Number(error.delay);
  const details = error.code === null ? {} : { details: JSON.stringify({ code: error.code }) };
  return { outcome: error.outcome, delay, error: reason, output: null, ...details };
}

/** A failed attempt. */
export function failed(error: string, details?: { type: string } | { code: string }): Verdict {
  const given = details === undefined ? {} : { details: JSON.stringify(details) };
  return { outcome: "retry", delay: null, error: storable(error), output: null, ...given };
}

/** How many causes of an error are told. */
const MOST_CAUSES = 20;

/** The text of an error and of its causes, each of them once: an error can be its own cause. */
function text(error: unknown): string {
  const chain = new Set<unknown>();
  for (let told = error; !chain.has(told) && chain.size <= MOST_CAUSES; told = told.cause) {
    chain.add(told);
    if (!(told instanceof Error) || told.cause === undefined) break;
  }
  return [...chain].map(written).join(": ");
}

function written(value: unknown): string {
  try {
    return String(value);
  } catch {
    return "a value that has no text";
  }
}

/** A text without what PostgreSQL cannot store. */
function storable(given: string): string {
  return given.replaceAll("\0", "\uFFFD").replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, "\uFFFD");
}
