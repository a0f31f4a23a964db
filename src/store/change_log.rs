//! The log of changes.

use std::time::Duration;

use serde_json::Value;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::row::Stored;
use super::{Statements, interval, query};
use crate::change_log::LoggedChange;
use crate::error::{AnswerFuture, Result};

/// A row of the log.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub(crate) id: Uuid,
    pub(crate) actor: String,
    pub(crate) verb: &'static str,
    pub(crate) subject: Value,
}

/// Logs a change, or adds to the number of jobs of one that is logged already.
pub(crate) fn log_change<'a>(
    connection: &'a mut PgConnection,
    statements: &'a Statements,
    entry: &'a LogEntry,
    jobs: Option<usize>,
) -> AnswerFuture<'a, ()> {
    let LogEntry { id, actor, verb, subject } = entry;
    let query = query(&statements.log_change).bind(id).bind(actor).bind(verb).bind(subject);
    let jobs = jobs.map(|jobs| i64::try_from(jobs).unwrap_or(i64::MAX));
    Box::pin(async move {
        query.bind(jobs).execute(connection).await?;
        Ok(())
    })
}

/// The logged changes before one of them, the latest first.
pub(crate) async fn list_changes(
    connection: &mut PgConnection,
    statements: &Statements,
    actor: Option<&str>,
    before: Uuid,
    limit: u32,
) -> Result<Vec<LoggedChange>> {
    let query = query(&statements.list_changes).bind(actor).bind(before).bind(i64::from(limit));
    let rows = query.fetch_all(connection).await?;
    let change = |row: &sqlx::postgres::PgRow| {
        Ok(LoggedChange {
            id: row.try_get("id")?,
            at: row.try_get::<Stored, _>("at")?.0,
            last_at: row.try_get::<Stored, _>("last_at")?.0,
            actor: row.try_get("actor")?,
            verb: row.try_get("verb")?,
            subject: row.try_get("subject")?,
            jobs: row.try_get::<Option<i64>, _>("jobs")?.map(i64::unsigned_abs),
        })
    };
    rows.iter().map(change).collect()
}

/// Deletes logged changes that are older than this, up to a thousand.
pub(crate) async fn prune_changes(
    connection: &mut PgConnection,
    statements: &Statements,
    older_than: Duration,
) -> Result<()> {
    query(&statements.prune_changes).persistent(false).bind(interval(older_than)).execute(connection).await?;
    Ok(())
}
