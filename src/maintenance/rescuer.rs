//! Brings back the jobs of runners whose lease ran out, and forgets the dead.

use std::time::Duration;

use sqlx::PgConnection;

use super::{BATCH, Service};
use crate::error::Result;
use crate::store::{self, Statements};

pub(crate) struct Rescuer {
    pub(crate) interval: Duration,
}

impl Service for Rescuer {
    const NAME: &'static str = "rescuer";

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn run_once(&mut self, connection: &mut PgConnection, statements: &Statements) -> Result<bool> {
        let rescued = store::rescue(connection, statements, BATCH).await?;
        if rescued > 0 {
            tracing::warn!(jobs = rescued, "rescued jobs of runners that died");
        } else {
            store::remove_dead_runners(connection, statements).await?;
        }
        Ok(rescued >= BATCH)
    }
}
