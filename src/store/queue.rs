//! Queues: their settings, and what is in them.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::{Statements, query};
use crate::error::Result;
use crate::words::count::JobCount;
use crate::words::ident::QueueName;
use crate::words::queue::{QueueInfo, QueueSettings};
use crate::words::state::JobState;

/// The number of jobs that are read where no index has their queue.
const LOOK_AT: i32 = 20_000;

/// A call that changes a queue or a group. Its arguments are members of the document `$1`, which is the change as it is logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueCall {
    /// The function, which is the verb in the log of changes.
    pub(crate) verb: &'static str,
    arguments: &'static str,
}

impl QueueCall {
    pub(crate) const PAUSE: Self =
        Self { verb: "pause_queue", arguments: "$1 ->> 'queue', $1 ->> 'reason', $1 ->> 'actor'" };
    pub(crate) const RESUME: Self = Self { verb: "resume_queue", arguments: "$1 ->> 'queue'" };
    pub(crate) const HOLD: Self =
        Self { verb: "hold_queue", arguments: "$1 ->> 'queue', _read_length($1 -> 'seconds')" };
    pub(crate) const SET: Self = Self { verb: "set_queue", arguments: "$1 ->> 'queue', $1 - 'queue' - 'actor'" };
    pub(crate) const HOLD_GROUP: Self =
        Self { verb: "hold_group", arguments: "$1 ->> 'queue', $1 ->> 'group', _read_length($1 -> 'seconds')" };
    pub(crate) const RESUME_GROUP: Self = Self { verb: "resume_group", arguments: "$1 ->> 'queue', $1 ->> 'group'" };
}

/// Changes a queue or a group, and returns whether the function answered with a row.
pub(crate) async fn change_queue(
    connection: &mut PgConnection,
    statements: &Statements,
    call: QueueCall,
    document: &Value,
) -> Result<bool> {
    let schema = statements.schema().quoted();
    let arguments =
        call.arguments.replace("$1", "$1::jsonb").replace("_read_length", &format!("{schema}._read_length"));
    // Safe to splice: a schema name is checked against an alphabet without quotes.
    let calling = AssertSqlSafe(format!("SELECT FROM {schema}.{}({arguments})", call.verb));
    Ok(sqlx::query(calling).bind(Json(document)).execute(connection).await?.rows_affected() > 0)
}

/// The settings of a queue.
pub(crate) async fn queue_settings(
    connection: &mut PgConnection,
    statements: &Statements,
    name: &QueueName,
) -> Result<QueueSettings> {
    let row = query(&statements.queue_settings).bind(name.as_str()).fetch_one(connection).await?;
    Ok(row.try_get::<Json<_>, _>(0)?.0)
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
        settings: row.try_get::<Json<_>, _>("settings")?.0,
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
