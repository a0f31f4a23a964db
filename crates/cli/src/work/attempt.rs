//! One attempt: a job is given to the program, and its answer is the outcome.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use serde::Serialize;
use uniqueue::{AnyJob, BoxError, JobParent, JobRow, Outcome};

use super::line_pool::LinePool;
use super::process::Program;
use super::program;
use super::report::Report;

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
