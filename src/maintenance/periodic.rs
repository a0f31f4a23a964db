//! Inserts the jobs of periodic jobs when their slots come.
//!
//! The database returns the definitions that are due, and this module computes their slots. Then one statement per
//! definition inserts the jobs and moves the definition on, if no other runner did (`run_periodic` in the database says
//! why that happens once a slot). A definition that is invalid is logged once and flagged in its row, and delays no
//! other.

use std::time::Duration;

use super::lease::Holder;
use super::service::Service;
use crate::error::{Error, Result};
use crate::event::{Event, Happened};
use crate::schedule::{Due, Schedule};
use crate::state::JobState;
use crate::store::{self, DuePeriodic, Ran};

/// The most definitions that one run reads.
const BATCH: i64 = 100;

/// The shortest sleep: slots within it are run together.
const SHORTEST_REST: Duration = Duration::from_millis(20);

/// The longest sleep, since a definition may be added or changed meanwhile. The sleep without any definition also bounds
/// how late another runner takes over from a holder that was killed.
const LONGEST_REST: Duration = Duration::from_secs(3);
const LONGEST_REST_WITHOUT_ANY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Periodic;

impl Service for Periodic {
    const NAME: &'static str = "periodic";

    fn margin(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let mut session = holder.connection.session().await?;
        let (due, next_in, has_any) = store::due_periodic(session.connection(), &holder.statements, BATCH).await?;
        session.end().await?;
        let longest = if has_any { LONGEST_REST } else { LONGEST_REST_WITHOUT_ANY };
        let mut rest = next_in.map_or(longest, |next_in| next_in.min(longest));
        let mut failed = Ok(());
        // Flagged definitions come last, so a full batch of valid ones means that there are more.
        let mut valid = 0;
        for periodic in due {
            match run(holder, &periodic).await {
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
    let DuePeriodic { name, schedule: text, time_zone, catch_up, starts_at, next_at, asked_at } = periodic;
    let schedule = Schedule::read(text, time_zone)?;
    let is_over = || Error::InvalidSchedule { problem: "it is never due again".to_owned(), given: text.clone() };
    let first = next_at.or_else(|| schedule.next_after(*starts_at)).ok_or_else(is_over)?;
    let Due { slots, next_at: moves_to } = schedule.due(first, *asked_at, *catch_up);
    let moves_to = moves_to.ok_or_else(is_over)?;
    if slots.is_empty() && first <= *asked_at {
        tracing::warn!(periodic = name, slot = %first, "missed slots of a periodic job are skipped");
    }
    let mut session = holder.connection.session().await?;
    let ran = store::run_periodic(session.connection(), &holder.statements, name, *next_at, &slots, moves_to).await?;
    session.end().await?;
    for Ran { slot, outcome, job, kind, queue } in ran {
        tracing::debug!(periodic = name, %slot, outcome, "slot of a periodic job run");
        if let Some(id) = job.filter(|_| outcome == "inserted") {
            // A slot is run when it is due, so its job can start at once.
            let happened = Happened::Inserted { state: JobState::Available, replaced: None };
            holder.client.publish(Event { id, kind, queue, attempt: 0, happened });
        }
    }
    Ok((moves_to - *asked_at).try_into().unwrap_or(Duration::ZERO))
}

/// Whether the definition is at fault, so that another try fails as well.
fn is_of_the_definition(error: &Error) -> bool {
    match error {
        Error::InvalidSchedule { .. } | Error::UnknownTimeZone { .. } => true,
        // Data exceptions and constraint violations: insert_job refuses the options.
        Error::Database(sqlx::Error::Database(error)) => {
            error.code().is_some_and(|code| ["22", "23"].contains(&&code[..2]))
        }
        _ => false,
    }
}

async fn flag(holder: &Holder, periodic: &DuePeriodic, error: &Error) -> Result<()> {
    let problem = error.to_string();
    let mut session = holder.connection.session().await?;
    let is_new = store::flag_periodic(session.connection(), &holder.statements, &periodic.name, &problem).await?;
    session.end().await?;
    if is_new {
        tracing::error!(periodic = periodic.name, problem, "a periodic job cannot be run");
    }
    Ok(())
}
