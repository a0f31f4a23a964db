//! Makes scheduled and retryable jobs available when they are due.

use std::time::Duration;

use sqlx::PgConnection;

use super::{BATCH, Service};
use crate::error::Result;
use crate::store::{self, Statements};

pub(crate) struct Promoter {
    pub(crate) interval: Duration,
}

impl Service for Promoter {
    const NAME: &'static str = "promoter";

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn run_once(&mut self, connection: &mut PgConnection, statements: &Statements) -> Result<bool> {
        let promoted = store::promote(connection, statements, BATCH).await?;
        Ok(promoted >= BATCH)
    }
}
