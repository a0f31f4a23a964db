//! `uniqueue migrate`.

use sqlx::{AssertSqlSafe, Row};
use uniqueue::{Error, Migration, SCHEMA_VERSION};

use crate::prelude::*;

/// Migrate a database's schema to the version that this uniqueue needs.
///
/// All migrations run in one transaction. Any number of processes may run this at once. --status and --print change nothing.
/// A schema that a newer uniqueue migrated is left unchanged: that is a success if this uniqueue may use it.
///
/// Examples:
///   uniqueue migrate --database-url postgres://localhost/app
///   uniqueue migrate --status --schema jobs || echo 'not up to date'
///   uniqueue migrate --lock-timeout 5s              so that others do not wait behind it for long
///   uniqueue migrate --print > migration.sql        then psql -v ON_ERROR_STOP=1 -f migration.sql
///
/// With --json it prints {"schema", "version", "needed", "current", "applied", "migrations", "waiting"}, with --print
/// {"schema", "sql"}.
///
/// Exit codes:
///   0    the schema has a version that this uniqueue may use, or the SQL is printed
///   1    with --status: the schema has another version
///   130  interrupted by Ctrl-C or SIGTERM before the end; nothing was changed
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct MigrateArguments {
    /// Only print which migrations were applied and which are waiting
    #[arg(long)]
    status: bool,

    /// Only print the SQL, for a role with more rights to run; it also records the migrations as applied
    #[arg(long, conflicts_with = "status")]
    print: bool,

    /// The longest wait for a lock that another transaction holds, such as 5s [default: 30s]
    #[arg(long, value_name = "DURATION", conflicts_with = "status")]
    lock_timeout: Option<DurationArgument>,

    #[command(flatten)]
    database: DatabaseArguments,
}

/// Migrates a schema, or prints its version or the SQL.
pub(crate) async fn run(arguments: MigrateArguments) -> Result<Verdict, Failure> {
    let database = Database::open(&arguments.database, 1).await?;
    let question = async |client: &Client, form: Form| {
        if arguments.print {
            let (schema, sql) = (client.schema(), arguments.migration(client).sql().await?);
            return form.object(&json!({ "schema": schema.as_str(), "sql": sql }), |_| match sql.is_empty() {
                true => {
                    format!("-- schema {schema} has the version that this uniqueue needs: there is nothing to run\n")
                }
                false => sql.clone(),
            });
        }
        let applied = if arguments.status { Vec::new() } else { arguments.migration(client).await? };
        let status = Status::read(client, applied).await?;
        let verdict = if status.current { Verdict::Fine } else { Verdict::NotFine };
        Ok(form.message(&status, status.text(arguments.status))?.verdict(verdict))
    };
    database.ask(&arguments.database, question).await
}

impl MigrateArguments {
    fn migration<'c>(&self, client: &'c Client) -> Migration<'c> {
        client.migration().given(self.lock_timeout, |migration, DurationArgument(limit)| migration.lock_timeout(limit))
    }
}

/// The version of a schema.
#[derive(Debug, Serialize)]
struct Status {
    schema: String,
    /// 0 if there is no schema.
    version: i32,
    /// The version that this uniqueue needs.
    needed: i32,
    /// Whether the schema has the needed version, or a newer one that this uniqueue may use.
    current: bool,
    /// The migrations that this command applied.
    applied: Vec<String>,
    /// All applied migrations.
    migrations: Vec<Applied>,
    /// The migrations that the schema lacks.
    waiting: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Applied {
    version: i32,
    name: String,
    applied_at: String,
}

impl Status {
    async fn read(client: &Client, applied: Vec<String>) -> Result<Self, Failure> {
        let schema = client.schema();
        let (exists, current) = match client.check_schema().await {
            Ok(()) => (true, true),
            Err(Error::NotMigrated { found, .. }) => (found > 0, false),
            Err(Error::NewerSchema { .. }) => (true, false),
            Err(error) => return Err(error.into()),
        };
        let migrations = match exists {
            false => Vec::new(),
            true => {
                // Safe to insert: the name is quoted, and its alphabet has no quotes.
                let history = format!(
                    "SELECT version, name, applied_on FROM {}.schema_history ORDER BY version",
                    schema.quoted()
                );
                let rows = sqlx::query(AssertSqlSafe(history)).fetch_all(client.pool()).await?;
                let migration = |row: &sqlx::postgres::PgRow| {
                    Ok(Applied { version: row.try_get(0)?, name: row.try_get(1)?, applied_at: row.try_get(2)? })
                };
                rows.iter().map(migration).collect::<Result<Vec<_>, sqlx::Error>>()?
            }
        };
        let (version, needed) = (migrations.last().map_or(0, |migration| migration.version), SCHEMA_VERSION);
        let waiting = if version < needed { client.migration().waiting().await? } else { Vec::new() };
        Ok(Self { schema: schema.to_string(), version, needed, current, applied, migrations, waiting })
    }

    fn text(&self, lists_all: bool) -> String {
        let Self { schema, version, needed, applied, migrations, waiting, .. } = self;
        let mut text = String::new();
        if lists_all {
            let line =
                |Applied { version, name, applied_at }: &Applied| format!("V{version} {name}, applied {applied_at}\n");
            text.extend(migrations.iter().map(line));
        }
        text.extend(waiting.iter().map(|name| format!("{name}, waiting\n")));
        text.extend(applied.iter().map(|name| format!("applied {name}\n")));
        let (said, hint) = if version == needed {
            (format!("at version {version}, which is the latest"), None)
        } else if self.current {
            (format!("at version {version}, newer than this uniqueue, which knows {needed} and may use it"), None)
        } else if version > needed {
            let said = format!("at version {version}, too new for this uniqueue, which knows {needed}");
            (said, Some("upgrade uniqueue".to_owned()))
        } else {
            let said = match version {
                0 => format!("not migrated: this uniqueue needs version {needed}"),
                _ => format!("behind: it is at version {version}, and this uniqueue needs {needed}"),
            };
            (said, Some(format!("run `uniqueue migrate --schema {schema}`")))
        };
        let hint = hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        format!("{text}schema {schema} is {said}\n{hint}")
    }
}
