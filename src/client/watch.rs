//! Watching running jobs and failing kinds.

use super::{Client, Request};
use crate::store;
use crate::watch::{FailingKind, RunningJobInfo};

impl Client {
    /// Lists running jobs with their runners, the longest-running first, at most `limit`. Read by index, so the size of
    /// the table does not matter. As the view `running_job`.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn running_jobs(&self, limit: u32) -> Request<'_, Vec<RunningJobInfo>> {
        Request::new(self, move |client, connection| {
            Box::pin(store::running_jobs(connection, client.statements(), limit))
        })
    }

    /// Lists the kinds with failed jobs, the worst first: among the 20,000 waiting jobs that are due first and the last
    /// 20,000 discarded ones. As the view `failing_kind`.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn failing_kinds(&self) -> Request<'_, Vec<FailingKind>> {
        Request::new(self, |client, connection| Box::pin(store::failing_kinds(connection, client.statements())))
    }
}
