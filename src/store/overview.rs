//! Lists for operators: runners, stuck jobs, retentions.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::queue::kept;
use super::row::Stored;
use super::why::{obstacle, obstacle_code};
use super::{Statements, interval, query};
use crate::error::Result;
use crate::ident::{JobId, Kind, QueueName};
use crate::overview::{GroupInfo, HeldGroup, QueueRetention, RunnerInfo, RunnerQueue, StuckJob};

/// Every runner, live ones first.
pub(crate) async fn list_runners(connection: &mut PgConnection, statements: &Statements) -> Result<Vec<RunnerInfo>> {
    let rows = query(&statements.list_runners).fetch_all(connection).await?;
    rows.iter().map(runner).collect()
}

fn runner(row: &PgRow) -> Result<RunnerInfo> {
    let names: Vec<String> = row.try_get("queues")?;
    let slots: Vec<i32> = row.try_get::<Option<_>, _>("slots")?.unwrap_or_default();
    let running: Vec<i64> = row.try_get("running")?;
    let queues = names.iter().enumerate().map(|(place, name)| RunnerQueue {
        queue: QueueName::from_stored(name),
        slots: slots.get(place).map(|slots| slots.unsigned_abs()),
        running: running.get(place).map_or(0, |running| running.unsigned_abs()),
    });
    let kinds: Option<Vec<String>> = row.try_get("kinds")?;
    let keep = |name: &str| Ok::<_, sqlx::Error>(row.try_get::<Option<f64>, _>(name)?.map(kept));
    Ok(RunnerInfo {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        host: row.try_get("host")?,
        started_at: row.try_get::<Stored, _>("started_at")?.0,
        is_alive: row.try_get("is_alive")?,
        heartbeat_age: length(row, "heartbeat_age")?,
        lease_left: length(row, "lease_left")?,
        is_idle: row.try_get("idle")?,
        queues: queues.collect(),
        kinds: kinds.map(|kinds| kinds.iter().map(|kind| Kind::from_stored(kind)).collect()),
        completed: row.try_get::<i64, _>("completed")?.unsigned_abs(),
        failed: row.try_get::<i64, _>("failed")?.unsigned_abs(),
        keep_completed: keep("keep_completed")?,
        keep_cancelled: keep("keep_cancelled")?,
        keep_discarded: keep("keep_discarded")?,
    })
}

/// The order of a list of groups.
#[derive(Clone, Debug)]
pub(crate) enum GroupOrder {
    /// Groups that are held up first.
    HeldUp,
    /// By the names of their queues and by their keys, after this queue and key.
    Name { after: (String, String) },
}

/// The groups that have available or running jobs.
pub(crate) async fn list_groups(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: Option<&QueueName>,
    order: &GroupOrder,
    limit: u32,
) -> Result<Vec<GroupInfo>> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let statement = match order {
        GroupOrder::HeldUp => &statements.list_groups,
        GroupOrder::Name { .. } => &statements.page_groups,
    };
    let mut query = query(statement).bind(queue.map(QueueName::as_str)).bind(limit);
    if let GroupOrder::Name { after: (queue, group) } = order {
        query = query.bind(queue).bind(group);
    }
    let rows = query.fetch_all(connection).await?;
    let group = |row: &PgRow| {
        Ok(GroupInfo {
            queue: QueueName::from_stored(row.try_get("queue")?),
            group: row.try_get("group_key")?,
            running: row.try_get::<i64, _>("running")?.unsigned_abs(),
            limit: row.try_get::<Option<i32>, _>("group_limit")?.map(i32::unsigned_abs),
            waiting: row.try_get::<i64, _>("waiting")?.unsigned_abs(),
            head: row.try_get::<Option<Uuid>, _>("head")?.map(JobId::from),
            head_kind: row.try_get::<Option<&str>, _>("head_kind")?.map(Kind::from_stored),
            head_since: row.try_get::<Option<Stored>, _>("head_since")?.map(|at| at.0),
            held_by: row.try_get::<Option<&str>, _>("code")?.map(|_| obstacle(row)).transpose()?,
            held_until: row.try_get::<Option<Stored>, _>("held_until")?.map(|at| at.0),
        })
    };
    rows.iter().map(group).collect()
}

/// The groups that are held, of one queue or of all.
pub(crate) async fn held_groups_list(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: Option<&QueueName>,
    group: Option<&str>,
    limit: u32,
) -> Result<Vec<HeldGroup>> {
    let limit = i64::from(limit);
    let query = query(&statements.list_held_groups).bind(queue.map(QueueName::as_str)).bind(group).bind(limit);
    let rows = query.fetch_all(connection).await?;
    let group = |row: &PgRow| {
        Ok(HeldGroup {
            queue: QueueName::from_stored(row.try_get("queue")?),
            group: row.try_get("group_key")?,
            held_until: row.try_get::<Stored, _>("held_until")?.0,
        })
    };
    rows.iter().map(group).collect()
}

/// The jobs that have been stuck for longest.
pub(crate) async fn stuck_jobs_list(
    connection: &mut PgConnection,
    statements: &Statements,
    running_for: Duration,
    waiting_for: Duration,
    limit: u32,
) -> Result<Vec<StuckJob>> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let query = query(&statements.list_stuck).bind(interval(running_for)).bind(interval(waiting_for)).bind(limit);
    let rows = query.fetch_all(connection).await?;
    let job = |row: &PgRow| {
        Ok(StuckJob {
            id: JobId::from(row.try_get::<Uuid, _>("id")?),
            kind: Kind::from_stored(row.try_get("kind")?),
            queue: QueueName::from_stored(row.try_get("queue")?),
            state: row.try_get::<&str, _>("state")?.parse()?,
            attempt: row.try_get::<i16, _>("attempt")?.max(0).unsigned_abs(),
            runner: row.try_get("runner")?,
            since: row.try_get::<Option<Stored>, _>("since")?.map(|at| at.0),
            stuck_for: length(row, "stuck_for")?,
            code: obstacle_code(row)?,
            reason: row.try_get("reason")?,
            remedy: row.try_get("remedy")?,
        })
    };
    rows.iter().map(job).collect()
}

/// How long each queue keeps its final jobs.
pub(crate) async fn list_retentions(
    connection: &mut PgConnection,
    statements: &Statements,
) -> Result<Vec<QueueRetention>> {
    let rows = query(&statements.list_retentions).fetch_all(connection).await?;
    let retention = |row: &PgRow| {
        Ok(QueueRetention {
            queue: QueueName::from_stored(row.try_get("queue")?),
            state: row.try_get::<&str, _>("state")?.parse()?,
            keep: kept(row.try_get("keep")?),
            is_default: row.try_get("is_default")?,
            overdue: row.try_get::<i64, _>("overdue")?.unsigned_abs(),
            overdue_by: length(row, "overdue_by")?,
            has_pruner: row.try_get("has_pruner")?,
        })
    };
    rows.iter().map(retention).collect()
}

/// A column of seconds. A negative number is none.
fn length(row: &PgRow, name: &str) -> Result<Option<Duration>> {
    let seconds: Option<f64> = row.try_get(name)?;
    Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
}
