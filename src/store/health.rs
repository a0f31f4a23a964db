//! The reads of `diagnose`: one statement a check, each row a JSON object.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sqlx::pool::PoolConnection;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Row, Transaction};
use uuid::Uuid;

use super::{Query, Statements, interval, query};
use crate::error::Result;

/// Begins a read-only transaction with a statement timeout and a lock timeout. The settings end with the transaction,
/// so it works through a pooler as well. It disables sequential scans: every part of a check stops at a limit, and only
/// an index scan stops there.
pub(crate) async fn begin_check(
    connection: &mut PoolConnection<Postgres>,
    timeout: Duration,
) -> Result<Transaction<'_, Postgres>> {
    let timeout = timeout.as_millis().clamp(1, 3_600_000);
    let begin = format!(
        "BEGIN READ ONLY; SET LOCAL statement_timeout = {timeout}; SET LOCAL lock_timeout = {timeout}; \
         SET LOCAL jit = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; \
         SET LOCAL idle_in_transaction_session_timeout = 0"
    );
    Ok(connection.begin_with(AssertSqlSafe(begin)).await?)
}

/// This session, as the database sees it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Itself {
    pub(crate) role: String,
    pub(crate) database: String,
    pub(crate) encoding: String,
    pub(crate) version: String,
    pub(crate) has_schema: bool,
    pub(crate) may_use: bool,
    pub(crate) sees_sessions: bool,
    pub(crate) is_standby: bool,
    pub(crate) has_autovacuum: bool,
    pub(crate) has_counts: bool,
    /// 0 to 1.
    pub(crate) notify_usage: f64,
    /// The database's clock, in seconds since 1970.
    pub(crate) clock: f64,
}

pub(crate) async fn itself(connection: &mut PgConnection, statements: &Statements) -> Result<Itself> {
    let row = query(&statements.health_self).bind(statements.schema().quoted()).fetch_one(connection).await?;
    Ok(row.try_get::<Json<Itself>, _>(0)?.0)
}

/// An index that no query uses.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct InvalidIndex {
    pub(crate) name: String,
    pub(crate) of_table: String,
    pub(crate) is_leftover: bool,
    pub(crate) is_written: bool,
    pub(crate) may_be_building: bool,
}

pub(crate) async fn invalid_indexes(
    connection: &mut PgConnection,
    statements: &Statements,
) -> Result<Vec<InvalidIndex>> {
    rows(query(&statements.health_indexes).bind(statements.schema().quoted()), connection).await
}

/// A transaction that has been open for long.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct OpenTransaction {
    pub(crate) pid: i32,
    pub(crate) role: Option<String>,
    pub(crate) application: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) query: Option<String>,
    pub(crate) open_for: f64,
    pub(crate) is_idle: bool,
    /// Whether it waits for another transaction's lock.
    pub(crate) waits: bool,
    /// How many transactions its snapshot is behind. `None`: it has none.
    pub(crate) snapshot_transactions: Option<i64>,
    /// How many sessions wait for it.
    pub(crate) blocks: i64,
    /// The queue's tables that it has changed, or locked rows of.
    pub(crate) changes: Vec<String>,
}

pub(crate) async fn open_transactions(
    connection: &mut PgConnection,
    statements: &Statements,
    at_least: Duration,
) -> Result<Vec<OpenTransaction>> {
    let asked = query(&statements.health_sessions).bind(interval(at_least)).bind(statements.schema().quoted());
    rows(asked, connection).await
}

/// The number of sessions whose statements are hidden from this role.
pub(crate) async fn hidden_sessions(connection: &mut PgConnection, statements: &Statements) -> Result<u64> {
    #[derive(Deserialize)]
    struct Hidden {
        sessions: u64,
    }
    let row = query(&statements.health_hidden_sessions).fetch_one(connection).await?;
    Ok(row.try_get::<Json<Hidden>, _>(0)?.sessions)
}

/// A prepared transaction.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct PreparedTransaction {
    pub(crate) gid: String,
    pub(crate) role: String,
    pub(crate) open_for: f64,
}

pub(crate) async fn prepared_transactions(
    connection: &mut PgConnection,
    statements: &Statements,
    at_least: Duration,
) -> Result<Vec<PreparedTransaction>> {
    rows(query(&statements.health_prepared).bind(interval(at_least)), connection).await
}

/// A snapshot that is held from outside.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct HeldFromOutside {
    /// `slot` or `standby`.
    pub(crate) what: String,
    pub(crate) name: String,
    pub(crate) is_active: bool,
    pub(crate) snapshot_transactions: Option<i64>,
    pub(crate) catalog_transactions: Option<i64>,
}

pub(crate) async fn held_from_outside(
    connection: &mut PgConnection,
    statements: &Statements,
) -> Result<Vec<HeldFromOutside>> {
    rows(query(&statements.health_replication), connection).await
}

/// A runner, alive or not.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct RunnerSeen {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) queues: Vec<String>,
    pub(crate) lease_left: f64,
    pub(crate) heartbeat_age: Option<f64>,
    pub(crate) lease: Option<f64>,
    /// Of a dead one: how many jobs it left running; 1001 means more than 1,000.
    pub(crate) running: i64,
}

pub(crate) async fn runners(connection: &mut PgConnection, statements: &Statements) -> Result<Vec<RunnerSeen>> {
    rows(query(&statements.health_runners), connection).await
}

/// Available jobs that no live runner of their queue can work.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct UnknownKind {
    pub(crate) queue: String,
    pub(crate) kind: String,
    pub(crate) jobs: i64,
    pub(crate) oldest_age: f64,
}

pub(crate) async fn unknown_kinds(
    connection: &mut PgConnection,
    statements: &Statements,
    look_at: i64,
) -> Result<Vec<UnknownKind>> {
    rows(query(&statements.health_kinds).bind(look_at), connection).await
}

/// Groups of a queue whose first available job waits for the same reason.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct HeldGroupCount {
    pub(crate) queue: String,
    /// `limit`: its limit. `began`: a job that began. `kind`: its first job is of a kind that no live runner works. `hold`: it
    /// is held for more than an hour from now.
    pub(crate) reason: String,
    pub(crate) groups: i64,
    /// The group that has waited for longest.
    pub(crate) group_key: String,
    pub(crate) head: Uuid,
    pub(crate) head_kind: String,
    /// The first obstacle of its first job, as a sentence.
    pub(crate) held_by: String,
    /// For how many seconds it is held.
    pub(crate) held_for: Option<f64>,
    pub(crate) oldest_age: f64,
}

pub(crate) async fn held_groups(
    connection: &mut PgConnection,
    statements: &Statements,
    look_at: i32,
    at_least: Duration,
) -> Result<Vec<HeldGroupCount>> {
    rows(query(&statements.health_groups).bind(look_at).bind(interval(at_least)), connection).await
}

/// Keys that are held by jobs of a kind that have stayed in one state.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct IdleClaims {
    pub(crate) kind: String,
    pub(crate) state: String,
    pub(crate) keys: i64,
    pub(crate) unique_key: String,
    pub(crate) holder: Uuid,
    pub(crate) oldest_age: f64,
}

pub(crate) async fn idle_claims(
    connection: &mut PgConnection,
    statements: &Statements,
    at_least: Duration,
    look_at: i64,
) -> Result<Vec<IdleClaims>> {
    rows(query(&statements.health_claims).bind(interval(at_least)).bind(look_at), connection).await
}

/// A maintenance service that no runner does, or a periodic job that is not run.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Neglected {
    /// `service` or `periodic`.
    pub(crate) what: String,
    pub(crate) name: String,
    pub(crate) is_off: bool,
    /// Whether no runner has looked at the periodic job yet.
    pub(crate) is_unseen: bool,
    pub(crate) late_by: Option<f64>,
    pub(crate) problem: Option<String>,
}

pub(crate) async fn neglected(
    connection: &mut PgConnection,
    statements: &Statements,
    at_least: Duration,
) -> Result<Vec<Neglected>> {
    rows(query(&statements.health_maintenance).bind(interval(at_least)), connection).await
}

/// A table and its vacuum.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct TableSeen {
    pub(crate) table_name: String,
    pub(crate) live_rows: i64,
    pub(crate) dead_rows: i64,
    /// 0 to 1.
    pub(crate) dead_part: f64,
    pub(crate) total_bytes: i64,
    pub(crate) autovacuum_is_on: bool,
    pub(crate) vacuum_at_dead_rows: i64,
    pub(crate) vacuum_is_due: bool,
    pub(crate) is_being_vacuumed: bool,
    pub(crate) vacuumed_ago: Option<f64>,
}

pub(crate) async fn tables(connection: &mut PgConnection, statements: &Statements) -> Result<Vec<TableSeen>> {
    rows(query(&statements.health_tables), connection).await
}

/// Jobs of a queue that are stuck in their state.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct StuckJobCount {
    /// As [`ObstacleCode`](crate::why::ObstacleCode) has it.
    pub(crate) code: String,
    pub(crate) queue: String,
    pub(crate) jobs: i64,
    pub(crate) oldest_age: f64,
    /// The one that has been stuck for longest.
    pub(crate) job: Uuid,
    pub(crate) kind: String,
    /// The obstacle, as a sentence.
    pub(crate) reason: String,
}

pub(crate) async fn stuck_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    running: Duration,
    due: Duration,
) -> Result<Vec<StuckJobCount>> {
    rows(query(&statements.health_stuck).bind(interval(running)).bind(interval(due)), connection).await
}

/// Many jobs of a kind and a queue that expired in the last hour.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ExpiredJobs {
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) jobs: i64,
    /// The last of them.
    pub(crate) job: Uuid,
}

/// Lists kinds and queues with many expired jobs among the last `look_at` discarded jobs.
pub(crate) async fn expired_kinds(
    connection: &mut PgConnection,
    statements: &Statements,
    look_at: i64,
) -> Result<Vec<ExpiredJobs>> {
    rows(query(&statements.health_expired).bind(look_at), connection).await
}

/// Jobs of a kind and a queue whose runners died several times in a row while they had them.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SuspectJobs {
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) is_discarded: bool,
    pub(crate) jobs: i64,
    /// The most crashes of one of them.
    pub(crate) crashes: i64,
    /// A job with the most crashes.
    pub(crate) job: Uuid,
}

/// Lists suspects by kind. Reads at most `look_at` jobs of each sort.
pub(crate) async fn suspect_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    look_at: i64,
) -> Result<Vec<SuspectJobs>> {
    rows(query(&statements.health_suspects).bind(look_at), connection).await
}

/// Attempts of a kind that run for far longer than usual.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SlowJobs {
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) jobs: i64,
    pub(crate) oldest_age: f64,
    /// The time within which 95 of 100 completed runs ended, in seconds.
    pub(crate) usual: f64,
    /// How many completed runs that comes from.
    pub(crate) runs: i64,
    /// One of the attempts' jobs.
    pub(crate) job: Uuid,
}

pub(crate) async fn slow_jobs(
    connection: &mut PgConnection,
    statements: &Statements,
    at_least: Duration,
    factor: u32,
    look_at: i64,
) -> Result<Vec<SlowJobs>> {
    let asking = query(&statements.health_slow).bind(interval(at_least)).bind(f64::from(factor)).bind(look_at);
    rows(asking, connection).await
}

/// Final jobs past their retention.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Overdue {
    pub(crate) queue: String,
    pub(crate) state: String,
    pub(crate) overdue: i64,
    pub(crate) has_pruner: bool,
    pub(crate) keep: String,
    pub(crate) overdue_by: f64,
}

pub(crate) async fn overdue(
    connection: &mut PgConnection,
    statements: &Statements,
    at_least: Duration,
) -> Result<Vec<Overdue>> {
    rows(query(&statements.health_retention).bind(interval(at_least)), connection).await
}

/// Reads the rows of a statement, one JSON object each.
pub(super) async fn rows<T: DeserializeOwned + Send + Unpin>(
    query: Query,
    connection: &mut PgConnection,
) -> Result<Vec<T>> {
    let rows = query.persistent(false).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get::<Json<T>, _>(0)?.0)).collect()
}
