//! Deletes final jobs past their retention.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::Service;
use crate::error::Result;
use crate::store::{self, Keep, Statements};

/// How many ids the pruner walks in one statement. Most are looked at in the index only.
const WALK: i64 = 5_000;

/// How long final jobs are kept. While a completed job is kept, a claim that covers `completed`
/// (River's default) goes on; its end is at the latest its deletion. A final job whose claim has a
/// deadline (`period`, `ttl`) is kept until then, however short its retention.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Retention {
    completed: Option<Duration>,
    cancelled: Option<Duration>,
    discarded: Option<Duration>,
}

impl Retention {
    const DAY: Duration = Duration::from_secs(86_400);

    /// Keeps every final job for ever.
    pub const fn forever() -> Self {
        Self { completed: None, cancelled: None, discarded: None }
    }

    /// How long completed jobs are kept. Default: a day.
    pub const fn completed(mut self, keep: Duration) -> Self {
        self.completed = Some(keep);
        self
    }

    /// How long cancelled jobs are kept. Default: a day.
    pub const fn cancelled(mut self, keep: Duration) -> Self {
        self.cancelled = Some(keep);
        self
    }

    /// How long discarded jobs are kept. Default: a week.
    pub const fn discarded(mut self, keep: Duration) -> Self {
        self.discarded = Some(keep);
        self
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { completed: Some(Self::DAY), cancelled: Some(Self::DAY), discarded: Some(7 * Self::DAY) }
    }
}

pub(crate) struct Pruner {
    interval: Duration,
    retention: Retention,
    /// Where the walk along the primary key goes on.
    reached: Uuid,
}

impl Pruner {
    pub(crate) const fn new(interval: Duration, retention: Retention) -> Self {
        Self { interval, retention, reached: Uuid::nil() }
    }
}

impl Service for Pruner {
    const NAME: &'static str = "pruner";

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn run_once(&mut self, connection: &mut PgConnection, statements: &Statements) -> Result<bool> {
        let Retention { completed, cancelled, discarded } = self.retention;
        let keep = Keep { completed, cancelled, discarded };
        let (_, reached) = store::prune(connection, statements, self.reached, WALK, keep).await?;
        self.reached = reached.unwrap_or(Uuid::nil());
        Ok(reached.is_some())
    }
}
