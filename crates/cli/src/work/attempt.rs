//! One attempt: a job is given to the program, its answer is the outcome, and a line reports it.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use serde::Serialize;
use uniqueue::{AnyJob, BoxError, JobError, JobParent, JobRow, Outcome};

use super::line_pool::LinePool;
use super::process::Program;
use super::program;
use crate::output::{self, format_duration, printable};

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
    program: Program,
    /// The long-lived processes. `None`: one process for each job.
    pool: Option<LinePool>,
    /// Whether a line has the parents of its job.
    has_parents: bool,
    report: Report,
}

impl Attempts {
    /// `keeps_processes`: whether the processes are long-lived and fed line by line. `has_parents`: whether a line has the
    /// parents of its job.
    pub(super) fn new(
        program: Vec<OsString>,
        grace: Duration,
        keeps_processes: bool,
        has_parents: bool,
        report: Report,
    ) -> Self {
        let program = Program::new(program, grace);
        Self { program, pool: keeps_processes.then(LinePool::default), has_parents, report }
    }

    /// Works one job.
    pub(super) async fn work(&self, job: AnyJob) -> Result<Outcome, BoxError> {
        let began = Instant::now();
        let outcome = self.run(&job).await;
        self.report.attempt(&job, &outcome, began.elapsed());
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

    /// Ends the long-lived processes.
    pub(super) async fn end(&self) {
        if let Some(pool) = &self.pool {
            pool.end(self.program.grace).await;
        }
    }
}

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
        Err(error) if JobError::is_permanent_in(&**error) => ("discarded", Some(error.to_string())),
        Err(error) => ("failed", Some(error.to_string())),
    }
}
