//! Watching: jobs that run, and kinds that fail.

use super::Client;
use crate::error::Result;
use crate::store;
use crate::watch::{FailingKind, RunningJobInfo};

impl Client {
    /// The jobs that run, those that have run for longest first, with their runners; at most so many. Read by index,
    /// whatever the size of the table. What the view `running_job` tells.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub async fn running_jobs(&self, limit: u32) -> Result<Vec<RunningJobInfo>> {
        store::running_jobs(&mut *self.connection().await?, self.statements(), limit).await
    }

    /// The kinds of which jobs failed, the worst first: among the 20,000 waiting jobs that are due first and the last
    /// 20,000 discarded ones. What the view `failing_kind` tells.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub async fn failing_kinds(&self) -> Result<Vec<FailingKind>> {
        store::failing_kinds(&mut *self.connection().await?, self.statements()).await
    }
}
