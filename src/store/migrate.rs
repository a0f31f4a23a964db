//! Migrations, run by refinery on a sqlx connection.
//!
//! One transaction holds an advisory lock of the schema, so that any number of processes may
//! migrate at once, and sets `search_path`, so that the migrations name no schema and their text,
//! which refinery checks against the history, is the same for all.

use refinery::{AsyncMigrate, Migration, Runner};
use refinery_core::traits::r#async::{AsyncQuery, AsyncTransaction};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Statements, query};
use crate::error::{Error, Result};
use crate::ident::SchemaName;

const MIGRATIONS: &[(&str, &str)] = &[
    ("V1__job_queue", include_str!("../../migrations/V1__job_queue.sql")),
    ("V2__unique_jobs", include_str!("../../migrations/V2__unique_jobs.sql")),
    ("V3__canonical_json", include_str!("../../migrations/V3__canonical_json.sql")),
    ("V4__unique_key", include_str!("../../migrations/V4__unique_key.sql")),
    ("V5__sql_door", include_str!("../../migrations/V5__sql_door.sql")),
    ("V6__control", include_str!("../../migrations/V6__control.sql")),
    ("V7__time", include_str!("../../migrations/V7__time.sql")),
    ("V8__progress", include_str!("../../migrations/V8__progress.sql")),
    ("V9__speed", include_str!("../../migrations/V9__speed.sql")),
];

/// The version that this library was built with: the last migration's.
pub(crate) const LATEST_VERSION: i32 = {
    let name = MIGRATIONS[MIGRATIONS.len() - 1].0.as_bytes();
    let (mut version, mut place) = (0, 1);
    while name[place] != b'_' {
        version = version * 10 + (name[place] - b'0') as i32;
        place += 1;
    }
    version
};

const HISTORY: &str = "schema_history";

/// Brings the schema to the latest version, creating it where it does not exist, and answers with
/// the names of the migrations it applied.
pub(crate) async fn migrate(connection: &mut PgConnection, statements: &Statements) -> Result<Vec<String>> {
    let schema = statements.schema();
    let mut transaction = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('uniqueue migrate ' || $1, 0))")
        .bind(schema.as_str())
        .execute(&mut *transaction)
        .await?;
    let found = schema_version(&mut transaction, statements).await?;
    if found > LATEST_VERSION {
        return Err(Error::NewerSchema { schema: schema.clone(), found, known: LATEST_VERSION });
    }
    if found == LATEST_VERSION {
        return Ok(Vec::new());
    }
    if !schema_exists(&mut transaction, schema).await? {
        execute(&mut transaction, format!("CREATE SCHEMA {}", schema.quoted()))
            .await
            .map_err(|source| failed(schema, source))?;
        execute(
            &mut transaction,
            format!("COMMENT ON SCHEMA {} IS 'uniqueue: a job queue with unique jobs.'", schema.quoted()),
        )
        .await
        .map_err(|source| failed(schema, source))?;
    }
    // pg_temp last, so that nobody's temporary table stands in for one of the queue's.
    execute(&mut transaction, format!("SET LOCAL search_path = {}, pg_temp", schema.quoted())).await?;
    let migrations = MIGRATIONS
        .iter()
        .map(|(name, sql)| Migration::unapplied(name, sql))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| failed(schema, source))?;
    let mut runner = Runner::new(&migrations).set_grouped(true);
    runner.set_migration_table_name(HISTORY);
    let report = runner.run_async(&mut Migrating(&mut transaction)).await.map_err(|source| failed(schema, source))?;
    if found == 0 {
        execute(&mut transaction, HISTORY_COMMENTS.to_owned()).await?;
    }
    transaction.commit().await?;
    Ok(report
        .applied_migrations()
        .iter()
        .map(|migration| format!("V{} {}", migration.version(), migration.name()))
        .collect())
}

/// The version of the schema in the database; 0 where there is none.
pub(crate) async fn schema_version(connection: &mut PgConnection, statements: &Statements) -> Result<i32> {
    let has_history: bool = sqlx::query("SELECT to_regclass($1) IS NOT NULL")
        .bind(format!("{}.{HISTORY}", statements.schema().quoted()))
        .fetch_one(&mut *connection)
        .await?
        .try_get(0)?;
    if !has_history {
        return Ok(0);
    }
    let row = query(&statements.schema_version).fetch_one(connection).await?;
    Ok(row.try_get("version")?)
}

const HISTORY_COMMENTS: &str = "
    COMMENT ON TABLE schema_history IS 'The migrations that this schema has seen, kept by refinery.';
    COMMENT ON COLUMN schema_history.version IS 'The migration''s number.';
    COMMENT ON COLUMN schema_history.name IS 'Its name.';
    COMMENT ON COLUMN schema_history.applied_on IS 'When it was applied (RFC 3339).';
    COMMENT ON COLUMN schema_history.checksum IS 'Checksum of its text: a landed migration never changes.';
    COMMENT ON CONSTRAINT schema_history_pkey ON schema_history IS 'One row a migration.';
";

async fn schema_exists(connection: &mut PgConnection, schema: &SchemaName) -> Result<bool> {
    let row = sqlx::query("SELECT to_regnamespace($1) IS NOT NULL").bind(schema.quoted()).fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}

async fn execute(connection: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.map(|_| ())
}

fn failed(schema: &SchemaName, source: impl std::error::Error) -> Error {
    let mut problem = source.to_string();
    let mut cause = source.source();
    while let Some(inner) = cause {
        problem = format!("{problem}: {inner}");
        cause = inner.source();
    }
    if problem.contains("permission denied") {
        problem.push_str("\nhint: let a role that may create schemas run `uniqueue migrate`, or create the schema and make this role its owner");
    }
    Error::Migration { schema: schema.clone(), problem }
}

/// A sqlx connection as refinery wants one.
struct Migrating<'a>(&'a mut PgConnection);

impl AsyncTransaction for Migrating<'_> {
    type Error = sqlx::Error;

    async fn execute<'a, T: Iterator<Item = &'a str> + Send + 'a>(
        &'a mut self,
        queries: T,
    ) -> Result<usize, sqlx::Error> {
        let mut executed = 0;
        for query in queries {
            execute(self.0, query.to_owned()).await?;
            executed += 1;
        }
        Ok(executed)
    }
}

impl AsyncQuery<Vec<Migration>> for Migrating<'_> {
    async fn query<'a>(&'a mut self, query: &'a str) -> Result<Vec<Migration>, sqlx::Error> {
        let rows = sqlx::query(AssertSqlSafe(query.to_owned())).fetch_all(&mut *self.0).await?;
        rows.iter()
            .map(|row| {
                let unreadable = |problem: String| sqlx::Error::Decode(problem.into());
                let applied_on: &str = row.try_get(2)?;
                let checksum: &str = row.try_get(3)?;
                Ok(Migration::applied(
                    row.try_get(0)?,
                    row.try_get(1)?,
                    OffsetDateTime::parse(applied_on, &Rfc3339)
                        .map_err(|_| unreadable(format!("applied_on: {applied_on:?}")))?,
                    checksum.parse().map_err(|_| unreadable(format!("checksum: {checksum:?}")))?,
                ))
            })
            .collect()
    }
}

impl AsyncMigrate for Migrating<'_> {}
