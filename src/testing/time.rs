//! Letting time pass without waiting.

use std::time::Duration;

use serde_json::json;
use time::OffsetDateTime;

use crate::client::Client;
use crate::error::Result;
use crate::schedule::{CatchUp, DueSlots, Schedule};
use crate::store::DuePeriodic;

/// The jobs and slots that became due. Made by [`advance`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Advanced {
    /// Scheduled and retryable jobs that became available.
    pub promoted: u64,
    /// Jobs of runners whose lease expired that became available, or were discarded because no attempt was
    /// left.
    pub rescued: u64,
    /// Slots of periodic jobs that were run.
    pub periodic: u64,
    /// Jobs that were discarded because they had not started by their `expires_at`.
    pub expired: u64,
}

/// Lets time pass in the queue's schema, without waiting for it.
///
/// ```
/// # use serde_json::json;
/// # use std::time::Duration;
/// # use uniqueue::{JobState, NewJob, UniquePolicy, testing};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = testing::Database::new().await?;
/// let client = database.client();
/// let day = Duration::from_secs(86_400);
/// let report = || NewJob::new("report", &json!({})).scheduled_in(day).unique(UniquePolicy::new().ttl(day));
/// let first = client.insert(report()).await?;
///
/// assert_eq!(database.advance(day).await?.promoted, 1);
/// assert_eq!(client.job(first.id()).await?.unwrap().state, JobState::Available);
/// assert!(client.insert(report()).await?.duplicate);
///
/// database.advance(day).await?; // and the claim has expired
/// assert!(!client.insert(report()).await?.duplicate);
/// # Ok(()) }
/// ```
///
/// The clock cannot be moved, so every stored time moves back instead: `created_at`, `scheduled_at`, `attempted_at`,
/// `finalized_at`, `unique_until` and `expires_at` of jobs, and the times of runners, queues and periodic jobs. Then jobs that
/// did not start in time expire, due jobs become available, jobs of runners whose lease expired come back, and every slot of a periodic job in that time is run (the
/// latest 1,000 of each), as a runner's maintenance would have done it. So schedules, retries, snoozes, leases, and claims
/// with a `period` or a `ttl` can be tested at once.
///
/// A *window* is part of the key, and a stored key cannot be made anew. So the keys of later inserts are made for the time
/// that has passed: the next window opens when its time has come. All clients of this process take part, and so do inserts
/// in SQL.
///
/// Limits:
///
/// - Clients of another process keep the real clock for windows, and so does a backfill. A diagnosis reports that the function
///   `_window_text` was changed.
/// - Ids and the times in `errors` stay as they are, and so does what the test holds in its
///   variables: times read before and after differ by what passed.
/// - A runner that runs meanwhile loses its lease, as if its machine had slept: it stops its jobs
///   and goes on under a new lease. Use [`drain`](super::drain) instead, or stop it before.
/// - The jobs of periodic jobs are inserted as an operator runs one at once:
///   due now, and without their slot in `meta`. Slots follow the real clock, so let whole intervals
///   pass, or whole days for a cron expression, when it matters which slot comes next.
/// - No job is deleted: retention is a runner's.
/// - The application's own tables stay as they are.
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database); also when a transaction that is still open holds
/// a job for 10 s.
pub async fn advance(client: impl AsRef<Client>, by: Duration) -> Result<Advanced> {
    let client = client.as_ref();
    let mut connection = client.connection().await?;
    let mut passed = Vec::new();
    for periodic in client.store(&mut connection).periodic_slots().await? {
        passed.extend(PassedSlots::of(periodic, by));
    }
    client.store(&mut connection).shift_times(by).await?;
    client.pass(by);
    let mut advanced = Advanced::default();
    for PassedSlots { name, slots, next_at } in passed {
        let count = i32::try_from(slots).unwrap_or(i32::MAX);
        client.store(&mut connection).run_passed_slots(&name, next_at - by, count).await?;
        advanced.periodic += slots as u64;
    }
    for (service, counted) in
        [("expirer", &mut advanced.expired), ("promoter", &mut advanced.promoted), ("rescuer", &mut advanced.rescued)]
    {
        let (settings, mut state) = (json!({}), json!({}));
        loop {
            let run = client.store(&mut connection).run_service(service, &settings, &state).await?;
            *counted += run.changed;
            if !run.next_in.is_zero() {
                break;
            }
            state = run.state;
        }
    }
    Ok(advanced)
}

/// The slots of a periodic job in the time that passes.
struct PassedSlots {
    name: String,
    slots: usize,
    next_at: OffsetDateTime,
}

impl PassedSlots {
    /// `None`: it has no slot in that time, or its definition is invalid.
    fn of(periodic: DuePeriodic, by: Duration) -> Option<Self> {
        let schedule = Schedule::read(&periodic.schedule, &periodic.time_zone).ok()?;
        let mut next_at = periodic.next_at.or_else(|| schedule.next_after(periodic.starts_at))?;
        let mut slots = 0;
        // A runner that was up all the time would have missed none. Slots come in batches.
        loop {
            let due = schedule.due(next_at, periodic.asked_at + by, CatchUp::All);
            slots += due.slots.len();
            let DueSlots { slots: batch, next_at: Some(next) } = due else { return None };
            if batch.is_empty() {
                return (slots > 0).then_some(Self { name: periodic.name, slots, next_at: next });
            }
            next_at = next;
        }
    }
}
