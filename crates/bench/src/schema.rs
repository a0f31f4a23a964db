//! The bench's own schema: made at the start, dropped at the end.
//!
//! The comment of the schema marks it as the bench's. The bench leaves any other schema alone. It drops a marked one
//! before it starts, because a bench that was killed left it. A session lock keeps a second bench out.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, PgConnection, Row};
use uniqueue::SchemaName;

use crate::failure::Failure;

/// The comment of the schema.
const MARK: &str = "made by uniqueue bench, which drops it";

/// How long the server may take to notice that an earlier bench has ended.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// How often dropping the schema is tried again after a deadlock.
const DROP_RETRIES: u32 = 5;

/// Makes the schema, unless the name belongs to something else.
pub(crate) async fn claim(connection: &mut PgConnection, schema: &SchemaName) -> Result<(), Failure> {
    lock(connection, schema).await?;
    let found = sqlx::query("SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = $1")
        .bind(schema.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(row) = found {
        let comment: Option<String> = row.try_get(0)?;
        if comment.as_deref() != Some(MARK) || holds_other_jobs(connection, schema).await? {
            return Err(Failure::refused(
                format!("the bench did not make this schema, or not all that is in it: {schema}"),
                "choose another --schema: the bench empties and drops the one it works in",
            ));
        }
        drop_schema(connection, schema).await?;
    }
    let schema = schema.quoted();
    execute(connection, format!("CREATE SCHEMA {schema}")).await?;
    execute(connection, format!("COMMENT ON SCHEMA {schema} IS '{MARK}'")).await?;
    Ok(())
}

/// Takes the lock of the schema for this session.
async fn lock(connection: &mut PgConnection, schema: &SchemaName) -> Result<(), Failure> {
    let began_at = Instant::now();
    loop {
        let is_locked: bool = sqlx::query("SELECT pg_try_advisory_lock(hashtextextended('uniqueue bench ' || $1, 0))")
            .bind(schema.as_str())
            .fetch_one(&mut *connection)
            .await?
            .try_get(0)?;
        if is_locked {
            return Ok(());
        }
        if began_at.elapsed() > LOCK_TIMEOUT {
            return Err(Failure::refused(
                format!("another bench is running in this database and schema: {schema}"),
                "wait for its end, or choose another --schema",
            ));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn holds_other_jobs(connection: &mut PgConnection, schema: &SchemaName) -> sqlx::Result<bool> {
    let has_table: bool = sqlx::query("SELECT to_regclass($1) IS NOT NULL")
        .bind(format!("{}.job", schema.quoted()))
        .fetch_one(&mut *connection)
        .await?
        .try_get(0)?;
    if !has_table {
        return Ok(false);
    }
    let others = format!("SELECT EXISTS (SELECT FROM {}.job WHERE kind <> 'bench')", schema.quoted());
    sqlx::query(AssertSqlSafe(others)).fetch_one(&mut *connection).await?.try_get(0)
}

pub(crate) async fn drop_schema(connection: &mut PgConnection, schema: &SchemaName) -> sqlx::Result<()> {
    let schema = schema.quoted();
    let mut retries = 0;
    loop {
        match execute(connection, format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).await {
            // An interrupted run may still hold locks that it took in another order.
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("40P01") && retries < DROP_RETRIES => {
                retries += 1;
            }
            dropped => return dropped,
        }
    }
}

/// Runs a statement. Safe to splice: the name of the schema is quoted, and checked against an alphabet without quotes.
async fn execute(connection: &mut PgConnection, statement: String) -> sqlx::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await.map(drop)
}
