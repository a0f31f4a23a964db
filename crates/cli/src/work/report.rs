//! A line for each attempt.

use std::time::Duration;

use serde::Serialize;
use uniqueue::{AnyJob, BoxError, JobError, Outcome, Permanent};

use crate::output::{self, format_duration, printable};

pub(super) struct Report {
    pub(super) is_json: bool,
}

#[derive(Serialize)]
struct Attempt<'a> {
    job: String,
    kind: &'a str,
    queue: &'a str,
    attempt: u16,
    outcome: &'static str,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

impl Report {
    /// Prints how an attempt ended, as the program said. The database decides whether it counts.
    pub(super) fn attempt(&self, job: &AnyJob, outcome: &Result<Outcome, BoxError>, took: Duration) {
        let code = outcome.as_ref().err().and_then(|error| JobError::code_in(&**error)).map(ToOwned::to_owned);
        let (outcome, error) = in_words(outcome);
        let attempt = Attempt {
            job: job.id().to_string(),
            kind: job.kind().as_str(),
            queue: job.queue().as_str(),
            attempt: job.attempt(),
            outcome,
            seconds: took.as_secs_f64(),
            error,
            code,
        };
        // A closed standard output must not fail jobs.
        let _ = match self.is_json {
            true => output::print_json_line(&attempt),
            false => output::print(&attempt.line(took)),
        };
    }
}

impl Attempt<'_> {
    fn line(&self, took: Duration) -> String {
        let why =
            self.error.as_deref().map(|error| format!(": {}", printable(error.lines().last().unwrap_or_default())));
        format!(
            "{} {} {} attempt {} in {}{}\n",
            self.outcome,
            printable(self.kind),
            self.job,
            self.attempt,
            format_duration(took),
            why.unwrap_or_default()
        )
    }
}

fn in_words(outcome: &Result<Outcome, BoxError>) -> (&'static str, Option<String>) {
    match outcome {
        Ok(Outcome::Complete { .. }) => ("completed", None),
        Ok(Outcome::Retry { reason, .. }) => ("failed", Some(reason.clone())),
        Ok(Outcome::Snooze { .. } | Outcome::HoldQueue { .. } | Outcome::HoldGroup { .. }) => ("snoozed", None),
        Ok(Outcome::Cancel { reason }) => ("cancelled", Some(reason.clone())),
        Ok(Outcome::Discard { reason }) => ("discarded", Some(reason.clone())),
        Ok(_) => ("ended", None),
        Err(error) if Permanent::is_in(&**error) => ("discarded", Some(error.to_string())),
        Err(error) => ("failed", Some(error.to_string())),
    }
}
