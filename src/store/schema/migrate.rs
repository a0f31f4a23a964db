//! Migrations, written by refinery and run on a sqlx connection.
//!
//! It is one transaction. Any number of processes may migrate at once: one does, the others wait for it and find nothing
//! left to do. No advisory lock is involved, since every role of the database could hold that. The transaction sets
//! `search_path`: the migrations name no schema, and their text, which refinery checks against the history, is the same
//! for every schema.

use std::time::Duration;

use refinery::{Migration, Runner};
use refinery_core::traits::sync;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Postgres, Row, Transaction};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::migrations::{HISTORY, MIGRATIONS, OLDEST_VERSION, label};
use crate::error::{Error, Result, with_causes};
use crate::store::{Statements, Store};
use crate::words::ident::SchemaName;

/// The time at which a statement runs, as refinery writes times.
const APPLIED_NOW: &str = r#"to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"#;

/// The longest wait of a migration for a lock, unless it is told another.
pub(crate) const LOCK_TIMEOUT_OF_MIGRATION: Duration = Duration::from_secs(30);

/// A migration that has begun, and holds its lock where the schema has a history.
pub(crate) struct OpenMigration<'c> {
    transaction: Transaction<'c, Postgres>,
    schema: SchemaName,
    script: Script,
}

impl<'c> Store<'c> {
    /// Begins to bring the schema to the latest version, or to create it where it does not exist. `None`: nothing is missing.
    pub(crate) async fn begin_migration(self, lock_timeout: Duration) -> Result<Option<OpenMigration<'c>>> {
        let Self { connection, statements } = self;
        let schema = statements.schema().clone();
        // What another process commits while this one waits must be seen.
        let mut transaction = connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        // Nearly always nothing is missing, and nothing is locked.
        let Some(script) = Script::find(&mut transaction, statements).await? else { return Ok(None) };
        for sql in script.opening(&schema, lock_timeout) {
            execute(&mut transaction, sql).await.map_err(|source| failed(&schema, source))?;
        }
        let script = Script::find(&mut transaction, statements).await?;
        Ok(script.map(|script| OpenMigration { transaction, schema, script }))
    }

    /// The statements that a migration would send, in its order, as one text. `None`: there is nothing to do.
    pub(crate) async fn migration_sql(self, lock_timeout: Duration) -> Result<Option<String>> {
        let Some(script) = Script::find(self.connection, self.statements).await? else { return Ok(None) };
        let opening = script.opening(self.statements.schema(), lock_timeout);
        // A client can have another encoding than this text.
        let encoding = "SET LOCAL client_encoding = 'UTF8'";
        let sent = ["BEGIN", encoding]
            .map(str::to_owned)
            .into_iter()
            .chain(opening)
            .chain(script.sent)
            .chain(["COMMIT".to_owned()]);
        Ok(Some(sent.map(|sql| ended(&sql)).collect()))
    }

    /// The names of the migrations that a migration would apply.
    pub(crate) async fn waiting_migrations(self) -> Result<Vec<String>> {
        Ok(Script::find(self.connection, self.statements).await?.map(|script| script.applied).unwrap_or_default())
    }
}

impl OpenMigration<'_> {
    /// Applies what is missing. Returns the names of the applied migrations. `None`: another process made an object first,
    /// and the migration is to begin again. Where that `is_last` it is an error.
    pub(crate) async fn apply(self, is_last: bool) -> Result<Option<Vec<String>>> {
        let Self { mut transaction, schema, script } = self;
        match send(&mut transaction, script.sent).await {
            Ok(()) => {
                transaction.commit().await?;
                Ok(Some(script.applied))
            }
            Err(error) if !is_last && is_made_already(&error) => {
                transaction.rollback().await?;
                Ok(None)
            }
            Err(error) => Err(failed(&schema, error)),
        }
    }
}

async fn send(connection: &mut PgConnection, statements: Vec<String>) -> Result<(), sqlx::Error> {
    for sql in statements {
        execute(connection, sql).await?;
    }
    Ok(())
}

/// Whether an object is there already, as another process that migrates may have made it.
fn is_made_already(error: &sqlx::Error) -> bool {
    const CODES: [&str; 5] = ["23505", "42P06", "42P07", "42710", "42723"];
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| CODES.contains(&&*code))
}

/// A statement, or several, with an end and an empty line.
fn ended(sql: &str) -> String {
    let sql = sql.trim();
    let has_comment = sql.lines().last().is_some_and(|line| line.contains("--"));
    let end = match (sql.ends_with(';'), has_comment) {
        (true, _) => "",
        (false, false) => ";",
        (false, true) => "\n;",
    };
    format!("{sql}{end}\n\n")
}

const HISTORY_COMMENTS: &str = "
    COMMENT ON TABLE schema_history IS 'The migrations that this schema has seen, kept by refinery.';
    ALTER TABLE schema_history ADD COLUMN oldest integer;
    COMMENT ON COLUMN schema_history.oldest IS 'The oldest version of the library that may use the schema after this migration. A version of the library is that of its last migration. Null: the version of this migration.';
    COMMENT ON COLUMN schema_history.version IS 'The migration''s number.';
    COMMENT ON COLUMN schema_history.name IS 'Its name.';
    COMMENT ON COLUMN schema_history.applied_on IS 'When it was applied (RFC 3339).';
    COMMENT ON COLUMN schema_history.checksum IS 'Checksum of its text: a landed migration never changes.';
    COMMENT ON CONSTRAINT schema_history_pkey ON schema_history IS 'One row a migration.';
";

/// Keys are made from Unicode text, and the texts of the migrations are Unicode.
async fn check_encoding(connection: &mut PgConnection, schema: &SchemaName) -> Result<()> {
    let query = "SELECT current_database()::text, getdatabaseencoding()::text";
    let (database, encoding): (String, String) = sqlx::query_as(query).fetch_one(connection).await?;
    if encoding == "UTF8" {
        return Ok(());
    }
    let problem = format!(
        "the database {database:?} has the encoding {encoding}, and the queue needs UTF8; hint: make another database: \
         createdb --encoding UTF8 --template template0"
    );
    Err(Error::Migration { schema: schema.clone(), problem })
}

async fn schema_exists(connection: &mut PgConnection, schema: &SchemaName) -> Result<bool> {
    let row = sqlx::query("SELECT to_regnamespace($1) IS NOT NULL").bind(schema.quoted()).fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}

async fn execute(connection: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.map(|_| ())
}

fn failed(schema: &SchemaName, source: impl std::error::Error + 'static) -> Error {
    let mut problem = with_causes(&source);
    if problem.contains("permission denied") {
        problem.push_str("; hint: let a role that may create schemas run `uniqueue migrate`, or create the schema and make this role its owner");
    }
    // Citus, on a worker node.
    if problem.contains("operation is not allowed on this node") {
        problem.push_str("; hint: on a worker node of Citus the session needs citus.enable_ddl_propagation=off: add `?options=-c%20citus.enable_ddl_propagation%3Doff` to the URL, or `\"citus\": true` to the place in the map");
    }
    if problem.contains("lock timeout") {
        problem.push_str("; hint: another transaction holds a lock for longer than the lock timeout: wait for its end, or allow more time");
    }
    Error::Migration { schema: schema.clone(), problem }
}

/// The missing migrations as SQL. refinery writes into this, so the printed SQL equals the SQL that a migration runs.
struct Script {
    /// The migrations that were applied to the schema.
    seen: Vec<Migration>,
    sent: Vec<String>,
    /// The names of the missing migrations.
    applied: Vec<String>,
}

impl Script {
    /// The first statements of the transaction. The history of a schema is locked: a lock that takes rights on the table.
    /// Where there is no history, the first process to make the schema or the history keeps the others waiting.
    fn opening(&self, schema: &SchemaName, lock_timeout: Duration) -> Vec<String> {
        let milliseconds = i32::try_from(lock_timeout.as_millis()).unwrap_or(i32::MAX).max(1);
        let limit = format!("SET LOCAL lock_timeout = {milliseconds}");
        // Safe to splice, here and below: a schema name is checked against an alphabet without quotes.
        let lock = || format!("LOCK TABLE {}.{HISTORY} IN SHARE ROW EXCLUSIVE MODE", schema.quoted());
        [limit].into_iter().chain((!self.seen.is_empty()).then(lock)).collect()
    }

    /// `None`: none is missing.
    async fn find(connection: &mut PgConnection, statements: &Statements) -> Result<Option<Self>> {
        let schema = statements.schema();
        let version = statements.over(connection).schema_version().await?;
        let found = match version.check(schema) {
            Ok(()) => return Ok(None),
            Err(Error::NotMigrated { found, .. }) => found,
            Err(error) => return Err(error),
        };
        check_encoding(connection, schema).await?;
        let seen = if found > 0 { history(connection, schema).await? } else { Vec::new() };
        let mut script = Self { seen, sent: Vec::new(), applied: Vec::new() };
        if !schema_exists(connection, schema).await? {
            script.sent.push(format!("CREATE SCHEMA {}", schema.quoted()));
            let comment = "IS 'uniqueue: a job queue with unique jobs.'";
            script.sent.push(format!("COMMENT ON SCHEMA {} {comment}", schema.quoted()));
        }
        // pg_temp last, so that no temporary table hides one of the queue's.
        script.sent.push(format!("SET LOCAL search_path = {}, pg_temp", schema.quoted()));
        script.write(schema)?;
        if found == 0 {
            script.sent.push(HISTORY_COMMENTS.to_owned());
        }
        script.sent.push(format!("UPDATE {HISTORY} SET oldest = {OLDEST_VERSION} WHERE oldest IS NULL"));
        Ok(Some(script))
    }

    /// Makes refinery write the missing migrations.
    fn write(&mut self, schema: &SchemaName) -> Result<()> {
        let migrations = MIGRATIONS.iter().map(|(name, sql)| Migration::unapplied(name, sql));
        let migrations: Vec<_> = migrations.collect::<Result<_, _>>().map_err(|source| failed(schema, source))?;
        let mut runner = Runner::new(&migrations).set_grouped(true);
        runner.set_migration_table_name(HISTORY);
        let report = runner.run(self).map_err(|source| failed(schema, source))?;
        for migration in report.applied_migrations() {
            self.applied.push(label(migration.version(), migration.name()));
            // The time of the migration by the database's clock, not of the printing.
            if let Some(Ok(at)) = migration.applied_on().map(|at| at.format(&Rfc3339)) {
                let now = |sql: &String| sql.replace(&format!("'{at}'"), APPLIED_NOW);
                self.sent = self.sent.iter().map(now).collect();
            }
        }
        Ok(())
    }
}

/// The migrations that were applied to a schema.
async fn history(connection: &mut PgConnection, schema: &SchemaName) -> Result<Vec<Migration>> {
    let history =
        format!("SELECT version, name, applied_on, checksum FROM {}.{HISTORY} ORDER BY version", schema.quoted());
    let rows = sqlx::query(AssertSqlSafe(history)).fetch_all(connection).await?;
    let unreadable = |problem: String| sqlx::Error::Decode(problem.into());
    rows.iter()
        .map(|row| {
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

impl sync::Transaction for Script {
    type Error = sqlx::Error;

    fn execute<'a, T: Iterator<Item = &'a str>>(&mut self, queries: T) -> Result<usize, sqlx::Error> {
        let before = self.sent.len();
        self.sent.extend(queries.map(str::to_owned));
        Ok(self.sent.len() - before)
    }
}

impl sync::Query<Vec<Migration>> for Script {
    /// refinery reads only the applied migrations.
    fn query(&mut self, _: &str) -> Result<Vec<Migration>, sqlx::Error> {
        Ok(self.seen.clone())
    }
}

impl sync::Migrate for Script {}
