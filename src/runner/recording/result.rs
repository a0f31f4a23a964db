//! The result of a run on its way to the database: how many results one statement carries, and the events of those that
//! are recorded.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::client::Client;
use crate::runner::life::lease::RunnerLease;
use crate::runner::telemetry::{JobTelemetry, is_heard};
use crate::store::{FinishedStates, RunResult, Verdict};
use crate::words::event::{Happened, TAKEN};
use crate::words::ident::JobId;
use crate::words::state::JobState;
use crate::worker::Stop;

/// The most bytes of outputs, errors and progress in one statement, unless a single result has more. A character that JSON
/// escapes is sent as six times as many bytes, and PostgreSQL reads messages of at most 1 GB.
const BYTES: usize = 16 << 20;

/// A run that ended.
pub(in crate::runner) struct Ended {
    /// The lease under which the job was fetched.
    pub(in crate::runner) lease: Arc<RunnerLease>,
    /// Identifies the run among those in hand.
    pub(in crate::runner) stop: Arc<Stop>,
    pub(in crate::runner) telemetry: Arc<JobTelemetry>,
    pub(in crate::runner) result: RunResult,
    /// Whether the job may be completed before the database takes this result, and drops it: by the worker, in a
    /// transaction of its own, or by this result, sent before, where only the answer was lost.
    pub(in crate::runner) may_be_completed: bool,
    /// How long the run waited and took. `None`: it was not started.
    pub(in crate::runner) times: Option<RunTimes>,
}

/// How long a run waited from when its job was due, and how long it took.
#[derive(Clone, Copy, Debug)]
pub(in crate::runner) struct RunTimes {
    pub(in crate::runner) waited: Duration,
    pub(in crate::runner) took: Duration,
}

/// Splits a batch so that no part is too large for one statement. Most batches are one part.
pub(in crate::runner) fn split_by_size(batch: Vec<Ended>) -> Vec<Vec<Ended>> {
    split(batch, |ended| size_of_result(&ended.result))
}

fn split<T>(batch: Vec<T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    if batch.iter().map(&size).fold(0, usize::saturating_add) <= BYTES {
        return vec![batch];
    }
    let (mut parts, mut part, mut sum) = (Vec::new(), Vec::new(), 0_usize);
    for item in batch {
        let size = size(&item);
        sum = sum.saturating_add(size);
        if sum > BYTES && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            sum = size;
        }
        part.push(item);
    }
    parts.push(part);
    parts
}

fn size_of_result(result: &RunResult) -> usize {
    let of_verdict = match &result.verdict {
        Verdict::Complete { output } => output.as_ref().map_or(0, size_of_json),
        Verdict::Retry { error, .. } | Verdict::Discard { reason: error } => error.text.len(),
        Verdict::Cancel { reason } => reason.len(),
        Verdict::Snooze { .. } | Verdict::GiveBack { .. } => 0,
    };
    of_verdict + result.progress.as_ref().map_or(0, size_of_json)
}

/// About as many bytes as the text has, without making it.
fn size_of_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 20,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size_of_json(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + size_of_json(value) + 4).sum::<usize>() + 2
        }
    }
}

/// Tells what became of results that were sent.
pub(in crate::runner) fn tell(client: &Client, batch: Vec<Ended>, finished: &FinishedStates) {
    let is_heard = is_heard(client);
    let mut dropped = Vec::new();
    for ended in batch {
        match finished.get(&ended.result.id) {
            None if !ended.may_be_completed => {
                dropped.push((ended.result.id, ended.result.attempt));
                tell_stale(client, &ended);
            }
            _ if !is_heard => {}
            state => {
                // A job without a state was completed before its result came.
                let state = state.copied().unwrap_or(JobState::Completed);
                let happened = happened(ended.result.verdict, state);
                ended.telemetry.tell(client, ended.result.id, ended.result.attempt, happened);
            }
        }
    }
    warn_of_stale(&dropped);
}

/// Tells of a result that was dropped.
pub(in crate::runner) fn tell_stale(client: &Client, ended: &Ended) {
    let (id, attempt) = (ended.result.id, ended.result.attempt);
    tracing::debug!(job.id = %id, job.kind = %ended.telemetry.kind, attempt, "stale result dropped");
    ended.telemetry.tell(client, id, attempt, Happened::Stale);
}

/// One line for all results that were dropped together: a lost lease can have thousands.
pub(in crate::runner) fn warn_of_stale(dropped: &[(JobId, u16)]) {
    match *dropped {
        [] => {}
        [(id, attempt)] => tracing::warn!(job.id = %id, attempt, "stale result dropped"),
        [(id, _), ..] => tracing::warn!(results = dropped.len(), first.job.id = %id, "stale results dropped"),
    }
}

/// The event of a verdict, given the state that the job is in since.
fn happened(verdict: Verdict, state: JobState) -> Happened {
    let is_discarded = state == JobState::Discarded;
    match verdict {
        _ if state == JobState::Completed => Happened::Completed,
        Verdict::Retry { error, .. } if is_discarded => Happened::Discarded { reason: error.text },
        Verdict::Snooze { .. } | Verdict::GiveBack { .. } if is_discarded => {
            Happened::Discarded { reason: TAKEN.to_owned() }
        }
        Verdict::Complete { .. } => Happened::Completed,
        Verdict::Retry { delay, error } => Happened::Retried { after: delay, error: Some(error.text) },
        Verdict::Snooze { delay, .. } => Happened::Snoozed { after: delay },
        Verdict::GiveBack { .. } => Happened::GivenBack,
        Verdict::Cancel { reason } => Happened::Cancelled { reason: Some(reason) },
        Verdict::Discard { reason } => Happened::Discarded { reason: reason.text },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_batch_is_split_before_it_is_too_large_and_every_result_is_in_a_part() {
        let split = |sizes: &[usize]| split(sizes.to_vec(), |size| *size);
        assert_eq!(split(&[0; 2_000]), [vec![0; 2_000]]);
        assert_eq!(split(&[BYTES, 1, BYTES - 1, 1]), [vec![BYTES], vec![1, BYTES - 1], vec![1]]);
        assert_eq!(split(&[BYTES + 1, usize::MAX, 1]), [[BYTES + 1], [usize::MAX], [1]]);
        assert_eq!(split(&[540_000; 2_000]).concat(), [540_000; 2_000]);
        assert_eq!(split(&[540_000; 2_000]).len(), 65);
    }

    #[test]
    fn the_size_of_a_value_is_about_that_of_its_text() {
        let value =
            json!({"name": "x".repeat(1_000), "numbers": [1, 2.5, 18446744073709551615_u64], "none": [null, true, {}]});
        let text = value.to_string().len();
        assert!((text..text * 2).contains(&size_of_json(&value)), "{text}, {}", size_of_json(&value));
    }
}
