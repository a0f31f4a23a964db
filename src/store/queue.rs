//! Queues: their settings, and what is in them.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::row::Stored;
use super::{FOR_EVER, Query, Statements, interval, query};
use crate::count::JobCount;
use crate::error::Result;
use crate::ident::QueueName;
use crate::queue::{QueueInfo, QueueSettings};
use crate::rate::Rate;
use crate::retention::Keep;
use crate::state::JobState;

/// The number of jobs that are read where no index has their queue.
const LOOK_AT: i32 = 20_000;

/// A retention of 900 years or more, in seconds, counts as for ever. A thousand years differ by how months are counted.
const LONG: f64 = 900.0 * 365.0 * 86_400.0;

/// A change of a queue's settings, or a look at them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueueVerb {
    /// Reads the settings, and changes nothing.
    Look,
    Pause,
    Resume,
    Limit(Option<i32>),
    LimitGroups(Option<i32>),
    LimitWaiting(Option<i32>),
    Share(bool),
    Rate(Option<Rate>),
    RateGroups(Option<Rate>),
    Hold(Duration),
    /// Completed, cancelled and discarded jobs; `None` leaves it as it is.
    Retain([Option<Keep>; 3]),
}

impl QueueVerb {
    /// The verb in the log of changes.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Pause => "pause_queue",
            Self::Resume => "resume_queue",
            Self::Limit(_) => "limit_queue",
            Self::LimitGroups(_) => "limit_groups",
            Self::LimitWaiting(_) => "limit_waiting",
            Self::Share(_) => "share_queue",
            Self::Rate(_) => "rate_queue",
            Self::RateGroups(_) => "rate_groups",
            Self::Hold(_) => "hold_queue",
            Self::Retain(_) => "retain_queue",
        }
    }
}

/// The reason and the author of a pause.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    pub(crate) reason: Option<String>,
    pub(crate) actor: Option<String>,
}

/// Changes a queue, and returns its new settings. `pause`: the reason and the author that a pause stores.
pub(crate) async fn change_queue(
    connection: &mut PgConnection,
    statements: &Statements,
    verb: QueueVerb,
    name: &QueueName,
    pause: &Pause,
) -> Result<QueueSettings> {
    let named = |statement| query(statement).bind(name.as_str());
    let change = match verb {
        QueueVerb::Look => None,
        QueueVerb::Pause => Some(named(&statements.pause_queue).bind(pause.reason.clone()).bind(pause.actor.clone())),
        QueueVerb::Resume => Some(named(&statements.resume_queue)),
        QueueVerb::Limit(limit) => Some(named(&statements.limit_queue).bind(limit)),
        QueueVerb::LimitGroups(limit) => Some(named(&statements.limit_groups).bind(limit)),
        QueueVerb::LimitWaiting(limit) => Some(named(&statements.limit_waiting).bind(limit)),
        QueueVerb::Share(is_fair) => Some(named(&statements.share_queue).bind(is_fair)),
        QueueVerb::Rate(rate) => Some(with_rate(named(&statements.rate_queue), rate)),
        QueueVerb::RateGroups(rate) => Some(with_rate(named(&statements.rate_groups), rate)),
        QueueVerb::Hold(hold_for) => Some(named(&statements.hold_queue).bind(interval(hold_for))),
        QueueVerb::Retain(keep) => {
            // Two concurrent changes of different states must not undo each other.
            named(&statements.enter_queue).execute(&mut *connection).await?;
            let lengths = keep.map(|keep| match keep {
                None | Some(Keep::AsRunnersSay) => None,
                Some(Keep::Forever) => Some(FOR_EVER),
                Some(Keep::For(length)) => Some(interval(length)),
            });
            let is_said = keep.map(|keep| keep.is_some());
            Some(named(&statements.retain_queue).bind(is_said.to_vec()).bind(lengths.to_vec()))
        }
    };
    if let Some(change) = change {
        change.execute(&mut *connection).await?;
    }
    match query(&statements.queue_settings).bind(name.as_str()).fetch_optional(connection).await? {
        Some(row) => settings(&row),
        None => Ok(QueueSettings {
            name: name.clone(),
            paused_at: None,
            paused_by: None,
            pause_reason: None,
            limit: None,
            group_limit: None,
            max_waiting: None,
            fair: false,
            rate: None,
            group_rate: None,
            held_until: None,
            keep_completed: Keep::AsRunnersSay,
            keep_cancelled: Keep::AsRunnersSay,
            keep_discarded: Keep::AsRunnersSay,
        }),
    }
}

/// Adds the parts of a rate.
fn with_rate(query: Query, rate: Option<Rate>) -> Query {
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    query
        .bind(rate.map(|rate| number(rate.count)))
        .bind(rate.map(|rate| interval(rate.period)))
        .bind(rate.map(|rate| number(rate.burst)))
}

/// Holds a group of a queue.
pub(crate) async fn hold_group(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: &QueueName,
    group: &str,
    hold_for: Duration,
) -> Result<()> {
    query(&statements.hold_group).bind(queue.as_str()).bind(group).bind(interval(hold_for)).execute(connection).await?;
    Ok(())
}

/// Ends the hold of a group of a queue, and returns whether it was held.
pub(crate) async fn resume_group(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: &QueueName,
    group: &str,
) -> Result<bool> {
    let resuming = query(&statements.resume_group).bind(queue.as_str()).bind(group);
    Ok(resuming.execute(connection).await?.rows_affected() > 0)
}

/// Deletes the settings of a queue, and returns whether it had any.
pub(crate) async fn remove_queue(
    connection: &mut PgConnection,
    statements: &Statements,
    name: &QueueName,
) -> Result<bool> {
    Ok(query(&statements.remove_queue).bind(name.as_str()).execute(connection).await?.rows_affected() > 0)
}

/// The pages of the table from which jobs are estimated where counting stopped: 4 MB, which take about 7 ms.
const SAMPLED_PAGES: f64 = 500.0;

/// Every queue, its jobs counted no further than `up_to`, and estimated beyond. A limit of 1 asks only whether there are jobs, so
/// nothing is estimated.
pub(crate) async fn list_queues(
    connection: &mut PgConnection,
    statements: &Statements,
    up_to: i32,
) -> Result<Vec<QueueInfo>> {
    let rows = query(&statements.list_queues).bind(up_to).bind(LOOK_AT).fetch_all(&mut *connection).await?;
    let mut queues: Vec<_> =
        rows.iter().map(|row| info(row, u64::from(up_to.unsigned_abs()))).collect::<Result<_>>()?;
    if up_to > 1 && queues.iter().any(|queue| JobState::ALL.iter().any(|state| !queue.count(*state).is_exact())) {
        estimate(connection, statements, &mut queues).await?;
    }
    Ok(queues)
}

/// Puts estimates in place of lower bounds. A queue and state of which no sampled page has a job keeps its bound.
async fn estimate(connection: &mut PgConnection, statements: &Statements, queues: &mut [QueueInfo]) -> Result<()> {
    let mut estimates = HashMap::new();
    for row in query(&statements.estimate_jobs).bind(SAMPLED_PAGES).fetch_all(connection).await? {
        let (queue, state): (String, &str) = (row.try_get("queue")?, row.try_get("state")?);
        estimates.insert((queue, state.to_owned()), row.try_get::<i64, _>("jobs")?.unsigned_abs());
    }
    for queue in queues {
        for state in JobState::ALL {
            let name = (queue.settings.name.to_string(), state.as_str().to_owned());
            let estimate = estimates.get(&name).copied().unwrap_or(0);
            let count = queue.count_mut(state);
            *count = count.or_about(estimate);
        }
    }
    Ok(())
}

fn settings(row: &PgRow) -> Result<QueueSettings> {
    Ok(QueueSettings {
        name: QueueName::from_stored(row.try_get("name")?),
        paused_at: row.try_get::<Option<Stored>, _>("paused_at")?.map(|at| at.0),
        paused_by: row.try_get("paused_by")?,
        pause_reason: row.try_get("pause_reason")?,
        limit: row.try_get::<Option<i32>, _>("max_running")?.map(i32::unsigned_abs),
        group_limit: row.try_get::<Option<i32>, _>("max_per_group")?.map(i32::unsigned_abs),
        max_waiting: row.try_get::<Option<i32>, _>("max_waiting")?.map(i32::unsigned_abs),
        fair: row.try_get::<Option<bool>, _>("fair")?.unwrap_or_default(),
        rate: rate(row, ["rate_count", "rate_period", "rate_burst"])?,
        group_rate: rate(row, ["group_rate_count", "group_rate_period", "group_rate_burst"])?,
        held_until: row.try_get::<Option<Stored>, _>("held_until")?.map(|at| at.0),
        keep_completed: keep(row, "keep_completed")?,
        keep_cancelled: keep(row, "keep_cancelled")?,
        keep_discarded: keep(row, "keep_discarded")?,
    })
}

/// A rate, of its columns.
fn rate(row: &PgRow, [count, period, burst]: [&str; 3]) -> Result<Option<Rate>> {
    let Some(count) = row.try_get::<Option<i32>, _>(count)? else { return Ok(None) };
    // A number of seconds is not exact, whole microseconds are.
    let period = Duration::from_micros((row.try_get::<f64, _>(period)? * 1e6).round() as u64);
    let burst = row.try_get::<i32, _>(burst)?.unsigned_abs();
    Ok(Some(Rate::per(count.unsigned_abs(), period).burst(burst)))
}

/// How long jobs are kept, of a column of seconds.
fn keep(row: &PgRow, name: &str) -> Result<Keep> {
    Ok(match row.try_get::<Option<f64>, _>(name)? {
        None => Keep::AsRunnersSay,
        Some(seconds) => kept(seconds),
    })
}

/// How long jobs are kept, of seconds.
pub(super) fn kept(seconds: f64) -> Keep {
    if seconds >= LONG { Keep::Forever } else { Keep::For(Duration::try_from_secs_f64(seconds).unwrap_or_default()) }
}

fn info(row: &PgRow, up_to: u64) -> Result<QueueInfo> {
    let number = |name: &str| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(name)?.unsigned_abs());
    let limited = |name: &str| Ok::<_, sqlx::Error>(JobCount::up_to(up_to, number(name)?));
    // Where not all jobs were read, there may be more.
    let seen = |name: &str, are_all: &str| {
        let counted = number(name)?;
        let is_exact = row.try_get(are_all)? && counted <= up_to;
        let counted = counted.min(up_to);
        Ok::<_, sqlx::Error>(match (is_exact, counted) {
            (true, _) => JobCount::Exactly(counted),
            // The part that was read has none.
            (false, 0) => JobCount::About(0),
            (false, _) => JobCount::AtLeast(counted),
        })
    };
    let age: Option<f64> = row.try_get("oldest_available_age")?;
    Ok(QueueInfo {
        settings: settings(row)?,
        runners: number("runners")?,
        oldest_available_age: age.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        available: limited("available")?,
        cancelled: seen("cancelled", "last_are_all")?,
        completed: seen("completed", "last_are_all")?,
        discarded: seen("discarded", "discarded_are_all")?,
        pending: seen("pending", "last_are_all")?,
        retryable: seen("retryable", "waiting_are_all")?,
        running: limited("running")?,
        scheduled: seen("scheduled", "waiting_are_all")?,
    })
}
