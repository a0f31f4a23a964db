//! Discards jobs that have not started by their `expires_at`.
//!
//! An expired job never starts, even if this service does not run: fetches skip it, and the start checks `expires_at` again.
//! The service discards the job with the reason, emits the event, and frees the unique key.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::batches::{Batch, Batches};
use super::lease::Holder;
use super::service::Service;
use super::step::Step;
use crate::client::Client;
use crate::error::Result;
use crate::store::{self, Expired, Statements};
use crate::words::event::{Event, Happened};

/// The shortest sleep. One statement discards all jobs that expire during it.
const SHORTEST_REST: Duration = Duration::from_millis(20);

/// While no job can expire, the expirer sleeps for this many intervals.
const IDLE_INTERVALS: u32 = 5;

#[derive(Debug)]
pub(crate) struct Expirer {
    /// The longest sleep while a job can expire, since an insert may add a job that expires sooner.
    interval: Duration,
    batches: Batches,
}

impl Expirer {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, batches: Batches::default() }
    }
}

impl Service for Expirer {
    const NAME: &'static str = "expirer";

    fn margin(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let step = Expiration { limit: self.batches.limit() };
        let Batch { done, rest, .. } = self.batches.run(holder, &step).await;
        let next_in = done.last().and_then(|(_, next_in)| *next_in);
        publish(&holder.client, done.into_iter().flat_map(|(expired, _)| expired));
        let next = || match next_in {
            Some(next_in) => next_in.max(SHORTEST_REST).min(self.interval),
            None => self.interval * IDLE_INTERVALS,
        };
        Ok(rest?.unwrap_or_else(next))
    }
}

#[derive(Clone, Copy, Debug)]
struct Expiration {
    limit: i64,
}

impl Step for Expiration {
    const VERB: &'static str = "expire";
    type Done = (Vec<Expired>, Option<Duration>);

    async fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        only: Option<&[Uuid]>,
    ) -> Result<Self::Done> {
        store::expire(connection, statements, self.limit, only).await
    }

    async fn find(&self, connection: &mut PgConnection, statements: &Statements, skip: &[Uuid]) -> Result<Vec<Uuid>> {
        store::expired_jobs(connection, statements, self.limit, skip).await
    }

    fn count((expired, _): &Self::Done) -> usize {
        expired.len()
    }
}

fn publish(client: &Client, expired: impl Iterator<Item = Expired>) {
    for Expired { id, kind, queue, attempt, error } in expired {
        tracing::info!(job.id = %id, job.kind = %kind, %queue, "job expired before it started");
        client.publish(Event { id, kind, queue, attempt, happened: Happened::Discarded { reason: error } });
    }
}
