//! Watching running jobs, failing kinds, runners and retentions.

use super::{Call, Client};
use crate::overview::{FailingCode, FailingError, FailingKind, QueueRetention, RunnerInfo, RunningJobInfo};
use crate::store;

impl Client {
    /// Lists running jobs with their runners, the longest-running first, at most `limit`. Read by index, so the size of
    /// the table does not matter. As the view `running_job`.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn running_jobs(&self, limit: u32) -> Call<'_, Vec<RunningJobInfo>> {
        Call::new(self, move |client, connection| Box::pin(store::running_jobs(connection, client.statements(), limit)))
    }

    /// Lists the kinds with failed jobs, the worst first: among the 10,000 waiting jobs that are due first and the last
    /// 10,000 discarded ones. The view `failing_kind` looks at twice as many.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn failing_kinds(&self) -> Call<'_, Vec<FailingKind>> {
        Call::new(self, |client, connection| Box::pin(store::failing_kinds(connection, client.statements())))
    }

    /// Lists the failed jobs by kind and the code of their last error ([`JobError::code`](crate::JobError::code)), the code
    /// with the most jobs first: among as many jobs as [`failing_kinds`](Self::failing_kinds) looks at. As the view
    /// `failing_code`.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn failing_codes(&self) -> Call<'_, Vec<FailingCode>> {
        Call::new(self, |client, connection| Box::pin(store::failing_codes(connection, client.statements())))
    }

    /// Lists the failed jobs of a kind, retryable or discarded, by the pattern of their last error, the pattern with the most
    /// jobs first, at most 100. It reads all failed jobs of all kinds. As the function `failing_errors` in SQL.
    /// [`JobFilter::error_pattern`](crate::JobFilter::error_pattern) selects the jobs of a pattern.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn failing_errors(&self, kind: &str) -> Call<'_, Vec<FailingError>> {
        let kind = kind.to_owned();
        Call::new(self, |client, connection| Box::pin(store::failing_errors(connection, client.statements(), kind)))
    }

    /// Lists the runners with their queues, their slots and the age of their heartbeats: live ones first, at most 1,000.
    /// A runner that died is listed for a day, or until its jobs are rescued.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn runners(&self) -> Call<'_, Vec<RunnerInfo>> {
        Call::new(self, |client, connection| Box::pin(store::list_runners(connection, client.statements())))
    }

    /// Lists how long each queue keeps its final jobs, and how many of 40,000 jobs looked at should be gone. As the view
    /// `retention`. [`Queue::retention`](crate::Queue::retention) changes it.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn retentions(&self) -> Call<'_, Vec<QueueRetention>> {
        Call::new(self, |client, connection| Box::pin(store::list_retentions(connection, client.statements())))
    }
}
