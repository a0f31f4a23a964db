//! Watching running jobs and failing kinds.

use super::Client;
use crate::error::Result;
use crate::store;
use crate::watch::{FailingKind, RunningJobInfo};

impl Client {
    /// Lists running jobs with their runners, the longest-running first, at most `limit`. Read by index, so the size of
    /// the table does not matter. As the view `running_job`.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub async fn running_jobs(&self, limit: u32) -> Result<Vec<RunningJobInfo>> {
        store::running_jobs(&mut *self.connection().await?, self.statements(), limit).await
    }

    /// Lists the kinds with failed jobs, the worst first: among the 20,000 waiting jobs that are due first and the last
    /// 20,000 discarded ones. As the view `failing_kind`.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub async fn failing_kinds(&self) -> Result<Vec<FailingKind>> {
        store::failing_kinds(&mut *self.connection().await?, self.statements()).await
    }
}
