//! The heartbeat: extends the lease four times a term, asks which runs were taken away, and listens, all on the runner's
//! one session.
//!
//! States: *alive*, while the lease was extended less than a term ago; and *lost*, until a new one is taken.
//!
//! Invariants:
//! - A heartbeat that is due comes before any notification, and before any question.
//! - No heartbeat takes longer than until the next one is due, nor longer than the lease lives, which is counted from
//!   before the database was asked. A question can make one late, by the time between two.
//! - The server ends a statement that takes nearly so long, and the session is kept: to cut it would leave a backend that
//!   waits for a lock behind each time.
//! - A broken or silent session alone costs no lease: a heartbeat that meets a broken one tries once more on a new one, and
//!   after one without an answer the next is sent over a new one at once.
//!
//! Failures: a database that refuses, or does not answer for a whole term, ends the lease. Its jobs are stopped, since they
//! are another runner's by now, and the runner goes on under a new lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::lease::RunnerLease;
use crate::client::connections::time_limit;
use crate::error::Result;
use crate::notify::{Notification, RunnerSession};
use crate::runner::shared::Shared;
use crate::worker::StopReason;

/// The least time between two questions, however many notifications come.
const LEAST_WAIT: Duration = Duration::from_millis(50);

/// How long the server works on a statement of the session at most, by the term of the lease: its answer still comes in time.
pub(in crate::runner) fn longest_statement(term: Duration) -> Duration {
    term / 16 * 3
}

/// Keeps the runner alive until it is closing, and then takes it out.
pub(in crate::runner) async fn beat(
    shared: Arc<Shared>,
    mut session: RunnerSession,
    closing: CancellationToken,
) -> Result<()> {
    let term = shared.options.lease;
    let rhythm = term / 4;
    let mut extended_at = shared.leases.current().asked_at;
    let mut beat_at = extended_at + rhythm;
    let mut asked_at = extended_at;
    let mut ask_at = None;
    loop {
        tokio::select! {
            // In this order, so that no flood of notifications holds up a heartbeat.
            biased;
            () = closing.cancelled() => break,
            () = sleep_until(beat_at) => {
                let (began, ends_at) = (Instant::now(), extended_at + term);
                beat_at = began + rhythm;
                let is_alive = tokio::select! {
                    () = closing.cancelled() => break,
                    is_alive = extend(&shared, &mut session, beat_at.min(ends_at)) => is_alive,
                };
                match is_alive {
                    Some(true) => {
                        extended_at = began;
                        shared.leases.current().note_heartbeat(began);
                        ask_at = Some(began);
                    }
                    // The next heartbeat is due when the lease ends, or earlier.
                    None if Instant::now() < ends_at => beat_at = beat_at.min(ends_at),
                    _ => {
                        if renew(&shared, &mut session).await {
                            extended_at = shared.leases.current().asked_at;
                            beat_at = extended_at + rhythm;
                        }
                    }
                }
            }
            () = sleep_until(ask_at.unwrap_or(beat_at)), if ask_at.is_some() => {
                ask_at = None;
                asked_at = Instant::now();
                tokio::select! {
                    () = closing.cancelled() => break,
                    () = ask(&shared, &mut session, beat_at.max(asked_at + rhythm).min(extended_at + term)) => {}
                }
            }
            () = shared.runs.ask.notified() => {
                ask_at.get_or_insert(asked_at + LEAST_WAIT);
            }
            notification = session.next_notification() => react(&shared, notification),
        }
    }
    give_up(&shared, session, rhythm).await
}

fn react(shared: &Shared, notification: Notification) {
    match notification {
        Notification::Gap => {
            shared.signals.wake.notify_one();
            shared.signals.parent_ended.notify_one();
            shared.runs.note_taken_away();
        }
        Notification::Jobs { queue } => {
            if shared.queues.iter().any(|slots| slots.name.as_str() == queue) {
                shared.signals.wake.notify_one();
            }
        }
        Notification::ParentEnded => shared.signals.parent_ended.notify_one(),
        Notification::TakenAway { worker } => {
            if shared.leases.current().id.to_string() == worker {
                shared.runs.note_taken_away();
            }
        }
    }
}

/// One heartbeat. `None`: the database did not answer whether the lease goes on. A lease whose time is over is not
/// extended.
async fn extend(shared: &Shared, session: &mut RunnerSession, until: Instant) -> Option<bool> {
    if until <= Instant::now() && !shared.leases.current().lost.is_cancelled() {
        return Some(false);
    }
    let extending = async |session: &mut RunnerSession| match extend_once(shared, session).await {
        Err(error) if !error.is_statement_timeout() => {
            tracing::debug!(%error, "heartbeat failed, trying once more");
            session.cut();
            extend_once(shared, session).await
        }
        answer => answer,
    };
    answer(session, until, "heartbeat failed", extending).await
}

/// Waits for an answer over the session until then. `None`: there was none, or it was an error.
async fn answer<T>(
    session: &mut RunnerSession,
    until: Instant,
    failure: &'static str,
    asking: impl AsyncFnOnce(&mut RunnerSession) -> Result<T>,
) -> Option<T> {
    match timeout_at(until, asking(session)).await {
        Ok(Ok(answer)) => return Some(answer),
        Ok(Err(error)) => {
            tracing::warn!(%error, "{failure}");
            if error.is_statement_timeout() {
                return None;
            }
        }
        // A database that does not answer in time is as bad as one that refuses.
        Err(_) => tracing::warn!("{failure}: no answer"),
    }
    session.cut();
    None
}

async fn extend_once(shared: &Shared, session: &mut RunnerSession) -> Result<bool> {
    let lease = shared.leases.current();
    if lease.lost.is_cancelled() {
        // Its jobs were stopped. An earlier heartbeat may still be committed, and must not keep the lease alive: its jobs
        // would be neither worked nor rescued. A runner that is drained takes no new one.
        return Ok(shared.signals.drained.is_cancelled());
    }
    let (term, worked) = (shared.options.lease, *lease.worked());
    let store = shared.client.store(session.connection().await?);
    let kept = store.extend_lease(lease.id, term, worked).await?;
    Ok(kept.map(|kept| shared.retention.update(kept)).is_some())
}

/// Stops the jobs of the lost lease, which are another runner's by now, and goes on under a new one.
async fn renew(shared: &Shared, session: &mut RunnerSession) -> bool {
    shared.leases.current().lose();
    shared.runs.stop_all(StopReason::LeaseLost);
    let taking = async |session: &mut RunnerSession| {
        let connection = session.connection().await?;
        let row = &shared.leases.row;
        let taken = RunnerLease::take(shared.client.store(connection), row, shared.options.lease).await;
        if taken.is_err() {
            // Where the schema was dropped, or restored at another version, the error says so.
            shared.client.store(connection).schema_version().await?.check(shared.client.schema())?;
        }
        taken
    };
    let until = Instant::now() + shared.options.lease / 4;
    let taken = tokio::select! {
        taken = answer(session, until, "no new lease yet", taking) => taken,
        // A runner that is drained needs none.
        () = shared.signals.drained.cancelled() => {
            session.cut();
            None
        }
    };
    let Some((lease, kept)) = taken else { return false };
    shared.leases.replace(lease);
    shared.retention.update(kept);
    shared.signals.freed.notify_one();
    true
}

async fn ask(shared: &Shared, session: &mut RunnerSession, until: Instant) {
    let lease = shared.leases.current().id;
    let asking = async |session: &mut RunnerSession| {
        let store = shared.client.store(session.connection().await?);
        shared.runs.stop_taken_away(store, lease).await
    };
    answer(session, until, "could not ask which runs were taken away", asking).await;
}

/// Deletes the runner's row, in two tries at most. Without the database the lease runs out by itself.
async fn give_up(shared: &Shared, mut session: RunnerSession, limit: Duration) -> Result<()> {
    let lease = shared.leases.current();
    let mut given_up = Ok(());
    for _ in 0..2 {
        let giving_up = async { lease.give_up(shared.client.store(session.connection().await?)).await };
        given_up = time_limit::within(limit, giving_up).await;
        if given_up.is_ok() {
            let _ = timeout(limit, session.close()).await;
            break;
        }
        session.cut();
    }
    given_up
}
