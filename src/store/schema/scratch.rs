//! Databases and schemas of tests, and their simulated time. Their names have only letters, digits and underscores, so they can be
//! spliced.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::error::Result;
use crate::store::{Store, interval, query};

/// Creates a database, as a copy of another where one is given. No session may be connected to the original.
pub(crate) async fn create_database(connection: &mut PgConnection, name: &str, template: Option<&str>) -> Result<()> {
    let template = template.unwrap_or("template1");
    execute(connection, format!("CREATE DATABASE {name} TEMPLATE {template}")).await
}

/// Drops a database, and ends the sessions connected to it.
pub(crate) async fn drop_database(connection: &mut PgConnection, name: &str) -> Result<()> {
    execute(connection, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await
}

/// Creates a schema.
pub(crate) async fn create_schema(connection: &mut PgConnection, name: &str) -> Result<()> {
    execute(connection, format!("CREATE SCHEMA {name}")).await
}

/// Drops a schema with all that is in it. One at a time: each object of it takes a lock until the end, and the server
/// has room for a few thousand. Returns an error when an object stays locked for 5 s.
pub(crate) async fn drop_schema(connection: &mut PgConnection, name: &str) -> Result<()> {
    let drop = format!("SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS {name} CASCADE");
    sqlx::raw_sql(AssertSqlSafe(drop)).execute(connection).await?;
    Ok(())
}

impl Store<'_> {
    /// The databases, and the schemas of this one, of tests that were killed more than a day ago.
    pub(crate) async fn left_behind(self) -> Result<Vec<(String, bool)>> {
        let rows = query(&self.statements.left_behind).fetch_all(self.connection).await?;
        rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("is_database")?))).collect()
    }

    /// Whether the role may create databases.
    pub(crate) async fn may_create_databases(self) -> Result<bool> {
        Ok(query(&self.statements.may_create_databases).fetch_one(self.connection).await?.try_get("may")?)
    }

    /// Ends the connections that carry the name of a schema, or hold locks in it or in the other one.
    pub(crate) async fn end_connections(self, schema: &str, other: &str) -> Result<()> {
        query(&self.statements.end_connections).bind(schema).bind(other).execute(self.connection).await?;
        Ok(())
    }

    /// Moves every time in the schema back, and the windows of later keys ahead, in one transaction.
    pub(crate) async fn shift_times(self, by: Duration) -> Result<()> {
        let mut transaction = self.connection.begin().await?;
        // A transaction that a test left open must cause an error, not a hanging test.
        sqlx::query("SET LOCAL lock_timeout = '10s'").execute(&mut *transaction).await?;
        let rows = query(&self.statements.time_shifts)
            .bind(self.statements.schema().as_str())
            .fetch_all(&mut transaction)
            .await?;
        for row in &rows {
            let statement: String = row.try_get("statement")?;
            sqlx::query(AssertSqlSafe(statement)).bind(interval(by)).execute(&mut *transaction).await?;
        }
        let window = query(&self.statements.window_shift).bind(interval(by)).fetch_one(&mut transaction).await?;
        let statement: String = window.try_get("statement")?;
        sqlx::query(AssertSqlSafe(statement)).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(())
    }
}

async fn execute(connection: &mut PgConnection, statement: String) -> Result<()> {
    sqlx::query(AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}
