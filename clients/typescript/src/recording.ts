/** What is sent of the ends of runs, and of their progress. */

import { NOT_COMMITTED, Outcome, type Verdict, failed, returned, thrown } from "./outcome.js";
import { type Run, type Warn, type Work, warnOfDropped } from "./running.js";

/** A result that is to be recorded, and what to call when it is. */
export interface Recording {
  run: Run;
  verdict: Verdict;
  recorded: () => void;
}

/** In one fetch, and in one call that records results. */
export const MOST_JOBS = 1000;
/** PostgreSQL stores no longer JSON, and takes no message of 1 GB. */
const LONGEST_JSON = 2 ** 28 - 1;

/** Runs the function of a job. What its end means never fails: whatever is wrong with it is the job's failure. */
export async function endOf(run: Run, work: Work, warn: Warn): Promise<Verdict> {
  const { job } = run;
  const end = async () => returned(await work(job));
  const failure = (error: unknown) => {
    if (!(error instanceof Outcome)) warn(`job ${job.id} (${job.kind}) failed`, error);
    return thrown(error);
  };
  const verdict = await end()
    .catch(failure)
    .catch(() => failed("the function threw what cannot be told"));
  // If the job is completed, the fence drops this result. If not, its transaction did not commit.
  if (job.isCompleted && verdict.outcome === "complete") return NOT_COMMITTED;
  if ((verdict.output?.length ?? 0) <= LONGEST_JSON) return verdict;
  warnOfDropped(job, "output: too large", warn);
  return { ...verdict, output: null };
}

/** The arguments of `finish_jobs`. */
export function resultsOf(batch: Recording[], warn: Warn): object {
  return {
    ids: batch.map(({ run }) => run.job.id),
    runs: batch.map(({ run }) => run.job.run),
    outcomes: batch.map(({ verdict }) => verdict.outcome),
    delays: batch.map(({ verdict }) => verdict.delay),
    errors: batch.map(({ verdict }) => verdict.error),
    error_details: batch.map(({ verdict }) => verdict.details ?? null),
    outputs: batch.map(({ verdict }) => verdict.output),
    progress: batch.map(({ run }) => progressOf(run, warn)),
  };
}

/** The progress as JSON. Null: there is none that can be stored. */
export function progressOf(run: Run, warn: Warn): string | null {
  try {
    const progress = run.job.progress === null ? null : (JSON.stringify(run.job.progress) ?? null);
    return progress === run.dropped || (progress?.length ?? 0) > LONGEST_JSON ? null : progress;
  } catch (error) {
    warn(`the progress of job ${run.job.id} is not JSON`, error);
    return null;
  }
}

/** How many jobs a worker may fetch. Results that wait to be sent again take no slot, but no more of them are kept than one call takes. */
export function freeSlots(runs: Run[], sent: Set<Run>, concurrency: number): number {
  const returned = runs.filter((run) => run.hasReturned);
  const later = returned.filter((run) => run.waits > 0).length;
  const taken = runs.length - returned.filter((run) => sent.has(run) || run.waits > 0).length;
  return Math.max(0, Math.min(concurrency - taken, MOST_JOBS - later));
}

/** The results of the next call. */
export function nextBatch(results: Recording[]): Recording[] {
  let length = 0;
  const end = results.findIndex(({ verdict }) => (length += verdict.output?.length ?? 0) > LONGEST_JSON);
  return results.slice(0, Math.min(end === -1 ? MOST_JOBS : Math.max(end, 1), MOST_JOBS));
}
