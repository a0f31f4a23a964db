//! The services that `_run_service` does in the database: promoter, expirer and rescuer.
//!
//! A run is one call. The database takes a batch, keeps refused and slow jobs from blocking others, and returns when the
//! next run is due. What it needs to go on with comes back as an opaque state, which the next call passes on. Here remain
//! the settings, the events and the log.

use std::time::Duration;

use serde_json::{Value, json};

use super::lease::Holder;
use super::service::Service;
use crate::client::Client;
use crate::error::Result;
use crate::store::{self, ChangedJob, ServiceRun};
use crate::words::event::{Event, Happened};
use crate::words::state::JobState;

/// The longest sleep of the rescuer: a runner with a short lease may have started meanwhile.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The number of crashes in a row after which a job is discarded, unless a runner sets another.
pub(crate) const MAX_CRASHES: u16 = 3;

#[derive(Debug)]
pub(crate) struct DatabaseService {
    name: &'static str,
    margin: Duration,
    settings: Value,
    state: Value,
}

impl DatabaseService {
    fn new(name: &'static str, margin: Duration, settings: Value) -> Self {
        Self { name, margin, settings, state: json!({}) }
    }

    /// Makes scheduled and retryable jobs available when they are due. A run returns when the next job is due. The rest is at
    /// most `interval`, since a job that is due sooner may be inserted meanwhile.
    pub(crate) fn promoter(interval: Duration) -> Self {
        Self::new("promoter", Duration::from_secs(2), json!({ "interval": milliseconds(interval) }))
    }

    /// Discards jobs that have not started by their `expires_at`. They never start, even if this service does not run: fetches
    /// skip them, and the start checks `expires_at` again.
    pub(crate) fn expirer(interval: Duration) -> Self {
        Self::new("expirer", Duration::from_secs(2), json!({ "interval": milliseconds(interval) }))
    }

    /// Rescues the jobs of runners whose lease expired, and removes dead runners. First it ends what a clock that went back
    /// would let last too long, which includes the leases of runners that died meanwhile. The longest rest and the margin are
    /// half the runner's lease, within limits: together no longer than the jobs of a dead holder wait anyway.
    pub(crate) fn rescuer(lease: Duration, max_crashes: u16) -> Self {
        let half_lease = (lease / 2).min(LONGEST_REST);
        Self::new("rescuer", half_lease, json!({ "interval": milliseconds(half_lease), "max_crashes": max_crashes }))
    }
}

impl Service for DatabaseService {
    fn name(&self) -> &'static str {
        self.name
    }

    fn margin(&self) -> Duration {
        self.margin
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let mut session = holder.connection.session().await?;
        let running =
            store::run_service(session.connection(), &holder.statements, self.name, &self.settings, &self.state);
        let ServiceRun { changed, next_in, state, jobs, warnings } = running.await?;
        session.end().await?;
        self.state = state;
        tracing::trace!(service = self.name, changed, "maintenance done");
        for warning in warnings {
            tracing::warn!(service = self.name, "{warning}");
        }
        for job in jobs {
            publish(&holder.client, self.name, job);
        }
        Ok(next_in)
    }
}

fn publish(client: &Client, service: &str, job: ChangedJob) {
    let ChangedJob { id, kind, queue, attempt, state, error } = job;
    let attempt = attempt.max(0).unsigned_abs();
    if service == "expirer" {
        tracing::info!(job.id = %id, job.kind = %kind, %queue, "job expired before it started");
    } else {
        tracing::warn!(job.id = %id, job.kind = %kind, %queue, attempt, %state, "job rescued from a dead runner");
    }
    let happened = match state {
        JobState::Discarded => Happened::Discarded { reason: error },
        _ => Happened::Rescued,
    };
    client.publish(Event { id, kind, queue, attempt, happened });
}

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs())
}
