//! One attempt: a job is given to the program, its answer is the outcome, and a line reports it.

use std::time::Instant;

use uniqueue::{AnyJob, BoxError, JobError, JobParent, Outcome};

use super::line_pool::LinePool;
use super::process::Program;
use super::program;
use crate::prelude::*;

/// The members of a job that the program reads.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    job: &'a JobRow,
    #[serde(skip_serializing_if = "Option::is_none")]
    parents: Option<Vec<JobParent>>,
}

/// How attempts are made.
pub(super) struct Attempts {
    pub(super) program: Program,
    /// The long-lived processes. `None`: one process for each job.
    pub(super) pool: Option<LinePool>,
    /// Whether a line has the parents of its job.
    pub(super) has_parents: bool,
    /// Whether a report is a line of JSON.
    pub(super) is_json: bool,
}

impl Attempts {
    /// Works one job.
    pub(super) async fn work(&self, job: AnyJob) -> Result<Outcome, BoxError> {
        let began = Instant::now();
        let outcome = self.run(&job).await;
        self.report(&job, &outcome, began.elapsed());
        outcome
    }

    async fn run(&self, job: &AnyJob) -> Result<Outcome, BoxError> {
        let parents = match self.has_parents {
            true => Some(job.client().parents(job.id()).await?),
            false => None,
        };
        let mut line = serde_json::to_vec(&Line { job: job.row(), parents })?;
        line.push(b'\n');
        match &self.pool {
            Some(pool) => pool.run(&self.program, job, &line).await,
            None => program::run(&self.program, job, line).await,
        }
    }

    /// Prints how an attempt ended, as the program said. The database decides whether it counts.
    fn report(&self, job: &AnyJob, outcome: &Result<Outcome, BoxError>, took: Duration) {
        let code = outcome.as_ref().err().and_then(|error| JobError::code_in(&**error)).map(ToOwned::to_owned);
        let (outcome, error) = in_words(outcome);
        let (id, kind, attempt) = (job.id().to_string(), job.kind().as_str(), job.attempt());
        let last_line = error.as_deref().map(|error| printable(error.lines().last().unwrap_or_default()));
        let why = last_line.map(|line| format!(": {line}")).unwrap_or_default();
        // A closed standard output must not fail jobs.
        let _ = match self.is_json {
            true => {
                let (queue, seconds) = (job.queue().as_str(), took.as_secs_f64());
                output::print_json_line(&Attempt { job: id, kind, queue, attempt, outcome, seconds, error, code })
            }
            false => {
                let (kind, took) = (printable(kind), format_duration(took));
                output::print(&format!("{outcome} {kind} {id} attempt {attempt} in {took}{why}\n"))
            }
        };
    }

    /// Ends the long-lived processes.
    pub(super) async fn end(&self) {
        if let Some(pool) = &self.pool {
            pool.end(self.program.grace).await;
        }
    }
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

fn in_words(outcome: &Result<Outcome, BoxError>) -> (&'static str, Option<String>) {
    match outcome {
        Ok(Outcome::Complete { .. }) => ("completed", None),
        Ok(Outcome::Retry { reason, .. }) => ("failed", Some(reason.clone())),
        Ok(Outcome::Snooze { .. } | Outcome::HoldQueue { .. } | Outcome::HoldGroup { .. }) => ("snoozed", None),
        Ok(Outcome::Cancel { reason }) => ("cancelled", Some(reason.clone())),
        Ok(Outcome::Discard { reason }) => ("discarded", Some(reason.clone())),
        Ok(_) => ("ended", None),
        Err(error) if JobError::is_permanent_in(&**error) => ("discarded", Some(error.to_string())),
        Err(error) => ("failed", Some(error.to_string())),
    }
}
