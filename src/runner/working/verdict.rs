//! The verdict on an attempt that ended: from the worker's result, and the reason why it was stopped.
//!
//! | the worker | not stopped | `Stopping` | `TimedOut` | `Cancelled`, `LeaseLost` |
//! |---|---|---|---|---|
//! | `Ok` | as it says | as it says | as it says | dropped by the fence |
//! | `Err`, or a panic | fails | given back | fails, with the limit | dropped by the fence |
//! | a permanent error | discarded | discarded | discarded | dropped by the fence |
//! | did not end within the grace | – | given back | fails, with the limit | dropped by the fence |
//!
//! A job that was cancelled or rescued is not this attempt's any more, and the database drops the attempt's result. If the
//! job is this attempt's after all, it was not taken away, and it is given back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::with_causes;
use crate::store::{Hold, StoredError, Verdict};
use crate::words::attempt_error::limited;
use crate::words::job_error::ErrorDetails;
use crate::words::outcome::{BoxError, Outcome};
use crate::words::retry::RetryPolicy;
use crate::worker::panics::{catch, wait_after};
use crate::worker::{Attempt, StopReason};

/// The target of the logs of outcomes. A program that reports outcomes itself turns it off.
const TARGET: &str = "uniqueue::outcome";

/// The error of a result that counts only if the transaction of [`AnyJob::complete_in`] did not commit.
///
/// [`AnyJob::complete_in`]: crate::AnyJob::complete_in
const NOT_COMMITTED: &str = "the transaction that completed the job did not commit";

/// The code of an attempt that took too long, unless its error has one.
const TIMED_OUT: &str = "timed_out";

/// How the work ended.
pub(in crate::runner) enum WorkEnd {
    Returned(Result<Outcome, BoxError>),
    /// It panicked, with this text.
    Panicked(String),
    /// It was dropped, since it did not end when it had to.
    Dropped,
}

/// The facts by which an attempt is judged.
pub(in crate::runner) struct Judge<'a> {
    pub(in crate::runner) attempt: &'a Attempt,
    pub(in crate::runner) retry_policy: &'a dyn Fn() -> RetryPolicy,
    /// How long it was allowed to run.
    pub(in crate::runner) timeout: Option<Duration>,
    /// The type of the worker's error, as its signature says.
    pub(in crate::runner) error_type: Option<&'static str>,
}

impl Judge<'_> {
    pub(in crate::runner) fn verdict(&self, work: WorkEnd) -> Verdict {
        match work {
            WorkEnd::Returned(Ok(outcome)) => self.told(outcome),
            WorkEnd::Returned(Err(error)) => {
                let verdict = self.failed(&error);
                // Dropping an error is the worker's code as well.
                if let Err(panic) = catch(|| drop(error)) {
                    tracing::error!(target: TARGET, panic, "the worker's error panicked when it was dropped");
                }
                verdict
            }
            WorkEnd::Panicked(text) => self.ended(text, ErrorDetails::coded("panicked")),
            WorkEnd::Dropped => self.dropped(),
        }
    }

    fn told(&self, outcome: Outcome) -> Verdict {
        // The row is completed already if the transaction committed, and then this result is
        // dropped by the fence. If not, the effects are gone, and so must be the completion.
        if self.attempt.is_completed_in.load(Ordering::Acquire) {
            return self.retry(StoredError::coded("not_committed", NOT_COMMITTED));
        }
        match outcome {
            Outcome::Complete { output } => Verdict::Complete { output },
            Outcome::Retry { after, reason } => Verdict::Retry { delay: after, error: limited(reason).into() },
            Outcome::Snooze { after } => Verdict::Snooze { delay: after, hold: None },
            Outcome::HoldQueue { after } => {
                tracing::info!(target: TARGET, ?after, "holds its queue");
                Verdict::Snooze {
                    delay: after,
                    hold: Some(Hold { queue: self.attempt.row.queue.clone(), group: None }),
                }
            }
            Outcome::HoldGroup { after } => {
                let row = &self.attempt.row;
                if row.group_key.is_none() {
                    tracing::warn!(target: TARGET, ?after, "holds its group, but has none: it only waits itself");
                } else {
                    tracing::info!(target: TARGET, ?after, "holds its group");
                }
                let hold = row.group_key.clone().map(|group| Hold { queue: row.queue.clone(), group: Some(group) });
                Verdict::Snooze { delay: after, hold }
            }
            Outcome::Cancel { reason } => Verdict::Cancel { reason: limited(reason) },
            Outcome::Discard { reason } => Verdict::Discard { reason: limited(reason).into() },
        }
    }

    fn failed(&self, error: &BoxError) -> Verdict {
        let text = catch(|| with_causes(error.as_ref()))
            .unwrap_or_else(|panic| format!("failed with an error that cannot be written: {panic}"));
        let details = catch(|| ErrorDetails::of(error.as_ref(), self.error_type)).unwrap_or_default();
        self.ended(text, details)
    }

    /// Of an attempt that ended with an error.
    fn ended(&self, mut text: String, mut details: ErrorDetails) -> Verdict {
        let reason = self.attempt.stop.reason();
        if reason == Some(StopReason::TimedOut) {
            text = format!("{}: {text}", self.timed_out());
            details.code.get_or_insert_with(|| TIMED_OUT.to_owned());
        }
        let error = StoredError { text: limited(text), details };
        match reason {
            _ if error.details.is_permanent => {
                tracing::error!(target: TARGET, error = error.text, code = error.details.code, "failed for good");
                Verdict::Discard { reason: error }
            }
            None | Some(StopReason::TimedOut) => self.fail(error),
            Some(StopReason::Stopping | StopReason::Cancelled | StopReason::LeaseLost) => {
                tracing::info!(target: TARGET, error = error.text, ?reason, "stopped");
                Verdict::GiveBack { has_started: true }
            }
        }
    }

    fn dropped(&self) -> Verdict {
        match self.attempt.stop.reason() {
            Some(StopReason::TimedOut) => self.fail(StoredError::coded(TIMED_OUT, self.timed_out())),
            _ => Verdict::GiveBack { has_started: true },
        }
    }

    fn fail(&self, error: StoredError) -> Verdict {
        let row = &self.attempt.row;
        let (text, code) = (&error.text, &error.details.code);
        if row.attempt < row.max_attempts {
            tracing::warn!(target: TARGET, error = text, code, "attempt failed");
        } else {
            tracing::error!(target: TARGET, error = text, code, "the last attempt failed");
        }
        self.retry(error)
    }

    /// Such as `timed out after 1.5 s`.
    fn timed_out(&self) -> String {
        let limit = format!("{:?}", self.timeout.unwrap_or_default());
        let (number, unit) = limit.split_at(limit.find(|c: char| c.is_alphabetic()).unwrap_or(limit.len()));
        format!("timed out after {number} {unit}")
    }

    fn retry(&self, error: StoredError) -> Verdict {
        let wait = || wait_after((self.retry_policy)(), self.attempt.row.attempt);
        Verdict::Retry { delay: error.details.retry_after.unwrap_or_else(wait), error }
    }
}

/// Whether the worker completed the job in a transaction and returned: the verdict is for the case that it did not commit.
pub(in crate::runner) fn is_completed_in(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Retry { error, .. } if error.text == NOT_COMMITTED)
}
