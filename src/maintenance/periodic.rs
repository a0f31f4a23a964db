//! Inserts the jobs of periodic jobs when their slots come.
//!
//! The database returns the definitions that are due, and this module computes their slots. Then one statement per
//! definition inserts the jobs and moves the definition on, if no other runner did (`run_periodic` in the database says
//! why that happens once a slot). A definition that is invalid is logged once and flagged in its row, and delays no
//! other. Schedules are computed off the runtime's threads.

use std::time::Duration;

use time::OffsetDateTime;

use super::lease::Holder;
use super::service::Service;
use crate::error::{Error, Result};
use crate::schedule::{DueSlots, Schedule};
use crate::store::{DuePeriodic, SlotRun};
use crate::words::event::{Event, Happened};
use crate::words::state::JobState;

/// The most definitions that one run reads.
const BATCH: i64 = 100;

/// The shortest sleep: slots within it are run together.
const SHORTEST_REST: Duration = Duration::from_millis(20);

/// The longest sleep, since a definition may be added or changed meanwhile. The sleep without any definition also bounds
/// how late another runner takes over from a holder that was killed.
const LONGEST_REST: Duration = Duration::from_secs(3);
const LONGEST_REST_WITHOUT_ANY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct PeriodicInserter;

impl Service for PeriodicInserter {
    fn name(&self) -> &'static str {
        "periodic"
    }

    fn margin(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let (due, next_in, has_any) = holder.ask(async |store| store.due_periodic(BATCH).await).await?;
        let longest = if has_any { LONGEST_REST } else { LONGEST_REST_WITHOUT_ANY };
        let mut rest = next_in.map_or(longest, |next_in| next_in.min(longest));
        let mut failed = Ok(());
        // Flagged definitions come last, so a full batch of valid ones means that there are more.
        let (mut valid, mut may_be_session) = (0, true);
        for periodic in due {
            let mut ran = run(holder, &periodic).await;
            // No definition is flagged for what only this session refuses.
            if matches!(&ran, Err(error) if is_of_the_definition(error) && error.is_of_session())
                && std::mem::take(&mut may_be_session)
            {
                holder.connection.replace();
                ran = run(holder, &periodic).await;
            }
            match ran {
                Ok(next_in) => {
                    valid += 1;
                    rest = rest.min(next_in);
                }
                Err(error) if is_of_the_definition(&error) => {
                    failed = flag(holder, &periodic, &error).await.and(failed)
                }
                Err(error) => failed = Err(error),
            }
        }
        failed?;
        if valid == BATCH {
            rest = SHORTEST_REST;
        }
        Ok(rest.max(SHORTEST_REST))
    }
}

/// Runs the due slots of one periodic job. Returns how long until its next slot.
async fn run(holder: &Holder, periodic: &DuePeriodic) -> Result<Duration> {
    let DuePeriodic { name, schedule, next_at, asked_at, is_ahead, .. } = periodic;
    let seen = periodic.clone();
    let (slots, moves_to) = match tokio::task::spawn_blocking(move || due_slots(&seen)).await {
        Ok(due) => due?,
        Err(error) => return Err(Error::InvalidSchedule { problem: error.to_string(), given: schedule.clone() }),
    };
    if *is_ahead {
        tracing::warn!(periodic = name, slot = %moves_to, "the database's clock went back: a periodic job is placed anew");
    } else if slots.is_empty() && next_at.is_some_and(|next_at| next_at <= *asked_at) {
        tracing::warn!(periodic = name, "missed slots of a periodic job are skipped");
    }
    let ran = holder.ask(async |store| store.run_periodic(periodic, &slots, moves_to).await).await?;
    for SlotRun { slot, outcome, job, kind, queue } in ran {
        tracing::debug!(periodic = name, %slot, outcome, "slot of a periodic job run");
        if let Some(id) = job.filter(|_| outcome == "inserted") {
            // A slot is run when it is due, so its job can start at once.
            let happened = Happened::Inserted { state: JobState::Available, replaced: None };
            holder.client.publish(Event { id, kind, queue, attempt: 0, happened });
        }
    }
    Ok((moves_to - *asked_at).try_into().unwrap_or(Duration::ZERO))
}

/// The slots of a periodic job that are due, and the next one.
fn due_slots(periodic: &DuePeriodic) -> Result<(Vec<OffsetDateTime>, OffsetDateTime)> {
    let DuePeriodic { schedule: text, time_zone, catch_up, starts_at, next_at, is_ahead, asked_at, .. } = periodic;
    let schedule = Schedule::read(text, time_zone)?;
    let first = match (next_at, is_ahead) {
        (Some(next_at), false) => Some(*next_at),
        (None, false) => schedule.next_after(*starts_at),
        // Times of a clock that was ahead are not waited for.
        (_, true) => (*next_at).into_iter().chain(schedule.next_after(*asked_at)).min(),
    };
    let is_over = || Error::InvalidSchedule { problem: "it is never due again".to_owned(), given: text.clone() };
    let DueSlots { slots, next_at } = schedule.due(first.ok_or_else(is_over)?, *asked_at, *catch_up);
    Ok((slots, next_at.ok_or_else(is_over)?))
}

/// Whether the definition is at fault, so that another try fails as well: its schedule, or the job that it inserts.
fn is_of_the_definition(error: &Error) -> bool {
    matches!(error, Error::InvalidSchedule { .. } | Error::UnknownTimeZone { .. }) || is_refusal(error)
}

/// Whether the server refused the statement, and would again. An error that passes by itself, such as a deadlock or a lock
/// timeout, is none.
fn is_refusal(error: &Error) -> bool {
    let is_said = matches!(error, Error::Database(sqlx::Error::Database(said)) if said.code().is_some());
    is_said && !error.is_of_server() && !error.is_retryable() && !error.is_mix_up() && !error.is_notify_queue_full()
}

async fn flag(holder: &Holder, periodic: &DuePeriodic, error: &Error) -> Result<()> {
    let problem = error.to_string();
    if holder.ask(async |store| store.flag_periodic(&periodic.name, &problem).await).await? {
        tracing::error!(periodic = periodic.name, problem, "a periodic job cannot be run");
    }
    Ok(())
}
