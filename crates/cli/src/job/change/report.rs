//! The progress and the outcome of a change.

use std::sync::{Mutex, MutexGuard, PoisonError};

use uniqueue::{Change, RefusedRetry};
use uniqueue_admin::{JobVerb, VerbWords};

use crate::prelude::*;

/// How many jobs a preview or an outcome shows.
pub(super) const SAMPLE: u32 = 5;

/// The outcome of a change.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    verb: &'static str,
    changed: u64,
    /// The jobs that were discarded instead, because another job holds their key and their policy says so.
    discarded: Vec<JobId>,
    unchanged: Vec<Unchanged>,
}

/// A job that was not changed, and why.
#[derive(Debug, Serialize)]
pub(super) struct Unchanged {
    pub(super) id: JobId,
    pub(super) reason: String,
}

/// The effect of a change before it is made.
#[derive(Debug, Serialize)]
pub(super) struct Preview<'a> {
    pub(super) verb: &'static str,
    pub(super) dry_run: bool,
    pub(super) jobs: JobCount,
    pub(super) sample: &'a [JobRow],
    pub(super) unchanged: &'a [Unchanged],
}

/// The progress of a change, updated after each batch.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Done>);

#[derive(Debug, Default)]
struct Done {
    /// The jobs of the batches so far, with the discarded ones.
    processed: u64,
    discarded: Vec<JobId>,
    /// The jobs that were left as they were, because another job holds their key.
    refused: Vec<RefusedRetry>,
}

impl Progress {
    /// Makes a change report its batches here.
    pub(super) fn follow<'c>(&'c self, change: Change<'c>, bar: &'c Bar) -> Change<'c> {
        let change = change.on_discarded(|ids| self.done().discarded.extend_from_slice(ids));
        let change = change.on_refused(|jobs| self.done().refused.extend_from_slice(jobs));
        change.on_batch(move |batch| {
            self.done().processed += batch.len() as u64;
            bar.advance(batch.len() as u64);
        })
    }

    pub(super) fn changed(&self) -> u64 {
        let done = self.done();
        // A batch reports its discarded jobs first.
        done.processed.saturating_sub(done.discarded.len() as u64)
    }

    pub(super) fn is_refused(&self, id: JobId) -> bool {
        self.done().refused.iter().any(|refused| refused.id == id)
    }

    pub(super) fn outcome(&self, verb: JobVerb, mut unchanged: Vec<Unchanged>) -> Outcome {
        let (verb, changed, done) = (verb.words().name, self.changed(), self.done());
        unchanged.extend(done.refused.iter().map(Unchanged::of_refused));
        Outcome { verb, changed, discarded: done.discarded.clone(), unchanged }
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unchanged {
    fn of_refused(refused: &RefusedRetry) -> Self {
        let holder = match refused.holder {
            Some(holder) => format!("job {holder}"),
            None => "another open transaction".to_owned(),
        };
        Self {
            id: refused.id,
            reason: format!("its unique key is held by {holder}, and its policy is on_reentry discard"),
        }
    }
}

/// The answer of a change. It is fine if every job was changed as asked.
pub(super) fn answer(outcome: &Outcome, words: VerbWords, form: &Form) -> Result<Answer, Failure> {
    let Outcome { verb: _, changed, discarded, unchanged } = outcome;
    let verdict = if discarded.is_empty() && unchanged.is_empty() { Verdict::Fine } else { Verdict::NotFine };
    let mut text = format!("{} {}\n", words.past, job_count(*changed));
    if !discarded.is_empty() {
        let shown: Vec<_> = discarded.iter().take(SAMPLE as usize).map(JobId::to_string).collect();
        let more = if discarded.len() > shown.len() { ", …" } else { "" };
        let (jobs, shown) = (job_count(discarded.len() as u64), shown.join(", "));
        text.push_str(&format!("discarded {jobs}, because another job holds the unique key: {shown}{more}\n"));
    }
    text.push_str(&unchanged_lines(unchanged));
    Ok(form.message(outcome, text)?.verdict(verdict))
}

/// A line for each job that was not changed.
pub(super) fn unchanged_lines(unchanged: &[Unchanged]) -> String {
    unchanged.iter().map(|Unchanged { id, reason }| format!("not {id}: {reason}\n")).collect()
}

/// `1 job`, `2,000 jobs`.
pub(super) fn job_count(count: u64) -> String {
    describe_count(JobCount::Exactly(count))
}

/// `1 job`, `2,000 jobs`, `more than 1,000,000 jobs`.
pub(super) fn describe_count(count: JobCount) -> String {
    match count {
        JobCount::Exactly(count) => output::counted(count, "job"),
        JobCount::AtLeast(count) => format!("more than {}", output::counted(count, "job")),
        JobCount::About(_) => format!("{count} jobs"),
    }
}
