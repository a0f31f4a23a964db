//! The services that `_run_service` does in the database.
//!
//! A run is one call. The database takes a batch, keeps refused and slow jobs from blocking others, and returns when the
//! next run is due. What it needs to go on with comes back as an opaque state, which the next call passes on. Here remain
//! the settings, the events and the log.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::lease::Holder;
use super::service::Service;
use crate::client::Client;
use crate::error::Result;
use crate::store::{ChangedJob, ServiceRun};
use crate::words::event::{Event, Happened};
use crate::words::retention::Retention;
use crate::words::state::JobState;

/// The longest sleep of the rescuer: a runner with a short lease may have started meanwhile.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The longest retention in seconds, 1,000 years: the database knows no time that is much earlier.
const LONGEST_RETENTION: f64 = 1_000.0 * 365.25 * 86_400.0;

/// The number of crashes in a row after which a job is discarded, unless a runner sets another.
pub(crate) const MAX_CRASHES: u16 = 3;

#[derive(Debug)]
pub(crate) struct DatabaseService {
    name: &'static str,
    margin: Duration,
    settings: Value,
    state: Value,
    /// Ends a rest. `None`: nothing does.
    woken: Option<Arc<Notify>>,
}

impl DatabaseService {
    fn new(name: &'static str, margin: Duration, settings: Value) -> Self {
        Self { name, margin, settings, state: json!({}), woken: None }
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

    /// Releases and cancels children whose parents have ended. `woken`: signalled by the notification of an end. `None`: the
    /// holder cannot be notified, and rests for at most `interval`.
    pub(crate) fn releaser(holder: &Holder, woken: Option<Arc<Notify>>, interval: Duration) -> Self {
        let listener = woken.is_some().then_some(holder.id);
        let settings = json!({ "listener": listener, "interval": milliseconds(interval) });
        Self { woken, ..Self::new("releaser", Duration::from_secs(2), settings) }
    }

    /// Deletes final jobs past their retention, wherever they are among those that stay, in rounds that begin every `interval`.
    pub(crate) fn pruner(interval: Duration, retention: Retention) -> Self {
        let Retention { completed, cancelled, discarded } = retention;
        let seconds = |keep: Option<Duration>| keep.map(|keep| keep.as_secs_f64().min(LONGEST_RETENTION));
        let keep = json!({
            "completed": seconds(completed), "cancelled": seconds(cancelled), "discarded": seconds(discarded),
        });
        Self::new("pruner", Duration::from_secs(10), json!({ "interval": milliseconds(interval), "keep": keep }))
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
        let run = holder.ask(async |store| store.run_service(self.name, &self.settings, &self.state).await).await;
        // A place at which a run failed must not hold up the next one.
        let ServiceRun { changed, next_in, state, jobs, warnings } = run.inspect_err(|_| {
            self.state["failed"] = Value::Bool(true);
        })?;
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

    async fn rest(&self, wait: Duration) {
        match &self.woken {
            Some(woken) => tokio::select! {
                () = woken.notified() => {}
                () = tokio::time::sleep(wait) => {}
            },
            None => tokio::time::sleep(wait).await,
        }
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
