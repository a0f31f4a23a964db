//! The log of changes.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Statements, query};
use crate::error::AnswerFuture;

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
