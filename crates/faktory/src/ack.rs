//! Results of workers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use uniqueue::JobError;
use uniqueue::period::LONGEST;
use uniqueue_remote::{JobResult, JobRun};
use uuid::Uuid;

use crate::command::Failure;
use crate::door::Door;
use crate::reply::Refusal;

/// The most bytes of the text of an error, and of its backtrace.
const MAX_MESSAGE: usize = 8 * 1024;
const MAX_BACKTRACE: usize = 12 * 1024;

/// Completes a job. A job that is no longer the worker's is no error, as in Faktory.
pub(crate) async fn ack(door: &Door, jid: &str, worker: &str) -> Result<(), Refusal> {
    let Some(reserved) = door.reserved.find(&door.client, jid, worker).await? else {
        tracing::debug!(jid, worker, "a result came too late, or for a job that the worker does not have");
        return Ok(());
    };
    finish(door, jid, worker, JobResult::complete(reserved.run), reserved.run).await?;
    door.counts.processed.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Fails a job: it is retried, dead or gone, by its `retry`.
pub(crate) async fn fail(door: &Door, failure: Failure, worker: &str) -> Result<(), Refusal> {
    let jid = failure.jid.clone();
    let Some(reserved) = door.reserved.find(&door.client, &jid, worker).await? else {
        return Err(Refusal::new(format!("Job not found {jid}")));
    };
    let error = job_error(failure, reserved.kept.as_ref().and_then(|kept| kept.backtrace).unwrap_or(0));
    let result = match reserved.kept.as_ref().map(|kept| kept.retry) {
        // Neither tried again nor kept among the dead.
        Some(Some(0)) => JobResult::cancel(reserved.run, error),
        // Retried as its kind says.
        None => JobResult::fail(reserved.run, error),
        _ => JobResult::fail(reserved.run, error.retry_after(retry_delay(reserved.attempt))),
    };
    finish(door, &jid, worker, result, reserved.run).await?;
    door.counts.processed.fetch_add(1, Ordering::Relaxed);
    door.counts.failures.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// The error that a worker reports, with the first `lines` lines of its backtrace.
pub(crate) fn job_error(failure: Failure, lines: u64) -> JobError {
    let Failure { errtype, message, backtrace, .. } = failure;
    let message =
        message.filter(|message| !message.is_empty()).unwrap_or_else(|| "failed without a message".to_owned());
    let mut error = JobError::new(start(&message, MAX_MESSAGE).to_owned());
    if let Some(errtype) = errtype.filter(|errtype| !errtype.is_empty()) {
        error = error.error_type(errtype);
    }
    match kept_lines(backtrace.unwrap_or_default(), lines) {
        Some(kept) => error.details(json!({ "backtrace": kept })),
        None => error,
    }
}

async fn finish(door: &Door, jid: &str, worker: &str, result: JobResult, run: JobRun) -> Result<(), Refusal> {
    let finished = door.results.finish(result, Duration::MAX).await?;
    // Until now the worker may send the result again.
    door.reserved.remove(jid, worker, run);
    if !finished.counted {
        tracing::debug!(jid, "a result came too late");
    }
    Ok(())
}

/// The wait before a retry: the number of retries so far to the fourth power, and 15 s, and up to 30 s at random for each.
fn retry_delay(attempt: u16) -> Duration {
    let retries = u64::from(attempt.saturating_sub(1));
    let random = Uuid::now_v7().as_u64_pair().1 % 30;
    let seconds = retries.saturating_pow(4).saturating_add(15).saturating_add(random * (retries + 1));
    Duration::from_secs(seconds).min(LONGEST)
}

/// The first lines of a backtrace. `None`: none are kept.
fn kept_lines(backtrace: Vec<String>, lines: u64) -> Option<Vec<Value>> {
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    let mut room = MAX_BACKTRACE;
    let mut kept = Vec::new();
    for line in backtrace.into_iter().take(lines) {
        // As JSON a character can take six bytes.
        let line = Value::String(start(&line, 1_024).to_owned());
        let Some(left) = room.checked_sub(line.to_string().len() + 1) else { break };
        room = left;
        kept.push(line);
    }
    (!kept.is_empty()).then_some(kept)
}

fn start(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_waits_as_in_faktory() {
        for (attempt, least, most) in [(1, 15, 44), (2, 16, 74), (3, 31, 118), (25, 331_791, 332_516)] {
            for _ in 0..100 {
                let delay = retry_delay(attempt).as_secs();
                assert!((least..=most).contains(&delay), "{attempt}: {delay}");
            }
        }
        assert_eq!(retry_delay(u16::MAX), LONGEST, "the database takes no more than 1,000 years");
    }

    #[test]
    fn so_many_lines_of_a_backtrace_are_kept() {
        let trace = |count: usize| (0..count).map(|line| format!("line {line}")).collect::<Vec<_>>();
        assert_eq!(kept_lines(trace(3), 0), None);
        assert_eq!(kept_lines(trace(3), 2).unwrap(), [json!("line 0"), json!("line 1")]);
        let long = kept_lines(vec!["\u{1}".repeat(10_000); 100], 100).unwrap();
        assert!(json!({ "backtrace": long }).to_string().len() <= 16 * 1024);
    }
}
