//! One attempt: a job is given to the program, and its answer is the outcome.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use uniqueue::{AnyJob, BoxError, Outcome};

use super::line_pool::LinePool;
use super::program;
use super::report::Report;

/// How attempts are made.
pub(super) struct Attempts {
    program: Vec<OsString>,
    grace: Duration,
    /// The long-lived processes. `None`: one process for each job.
    pool: Option<LinePool>,
    report: Report,
}

impl Attempts {
    /// `keeps_processes`: whether the processes are long-lived and fed line by line.
    pub(super) fn new(program: Vec<OsString>, grace: Duration, keeps_processes: bool, report: Report) -> Self {
        Self { program, grace, pool: keeps_processes.then(LinePool::default), report }
    }

    /// Works one job.
    pub(super) async fn work(&self, job: AnyJob) -> Result<Outcome, BoxError> {
        let began = Instant::now();
        let outcome = self.run(&job).await;
        self.report.attempt(&job, &outcome, began.elapsed());
        outcome
    }

    async fn run(&self, job: &AnyJob) -> Result<Outcome, BoxError> {
        let mut line = serde_json::to_vec(job.row())?;
        line.push(b'\n');
        match &self.pool {
            Some(pool) => pool.run(&self.program, self.grace, job, &line).await,
            None => program::run(&self.program, self.grace, job, line).await,
        }
    }

    /// Ends the long-lived processes.
    pub(super) async fn end(&self) {
        if let Some(pool) = &self.pool {
            pool.end(self.grace).await;
        }
    }
}
