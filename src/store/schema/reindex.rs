//! Bloated indexes, and indexes that a failed rebuild left behind.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};

use crate::error::Result;
use crate::store::{Store, interval, query};

/// The limits of a rebuild. It waits for open transactions, but not for long: autovacuum skips the table meanwhile.
const REBUILD_BOUNDS: &str = "SET lock_timeout = '30s'; SET statement_timeout = '1h'; SET idle_session_timeout = 0";

/// An index that may need a rebuild.
#[derive(Debug)]
pub(crate) struct BloatedIndex {
    pub(crate) name: String,
    pub(crate) pages: i64,
    pub(crate) needed: i64,
    /// Whether the role may rebuild it.
    pub(crate) is_owner: bool,
}

impl Store<'_> {
    /// Begins a run of a service that runs seldom. `false`: the last one began less than that ago.
    pub(crate) async fn begin_run(self, service: &str, interval_between: Duration) -> Result<bool> {
        let began = query(&self.statements.begin_run).persistent(false).bind(service).bind(interval(interval_between));
        Ok(began.execute(self.connection).await?.rows_affected() > 0)
    }

    /// The tables that have an index of at least `pages` pages, and whether the role owns them.
    pub(crate) async fn large_tables(self, pages: i64) -> Result<Vec<(String, bool)>> {
        let rows = query(&self.statements.large_tables)
            .bind(pages)
            .bind(self.statements.schema().quoted())
            .fetch_all(self.connection)
            .await?;
        rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("is_owner")?))).collect()
    }

    /// The indexes that failed rebuilds left behind, and whether the role owns them.
    pub(crate) async fn failed_indexes(self) -> Result<Vec<(String, bool)>> {
        let rows = query(&self.statements.failed_indexes)
            .bind(self.statements.schema().quoted())
            .fetch_all(self.connection)
            .await?;
        rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("is_owner")?))).collect()
    }

    /// The indexes with at least a number of pages and a multiple of the pages that they need.
    pub(crate) async fn bloated_indexes(self, pages: i64, factor: i64) -> Result<Vec<BloatedIndex>> {
        let rows = query(&self.statements.bloated_indexes).bind(pages).bind(factor).fetch_all(self.connection).await?;
        rows.iter()
            .map(|row| {
                Ok(BloatedIndex {
                    name: row.try_get("name")?,
                    pages: row.try_get("pages")?,
                    needed: row.try_get("needed")?,
                    is_owner: row.try_get("is_owner")?,
                })
            })
            .collect()
    }

    /// Updates the statistics of a table.
    pub(crate) async fn analyze(self, table: &str) -> Result<()> {
        self.tend("ANALYZE", table).await
    }

    /// Rebuilds an index without blocking writes.
    pub(crate) async fn rebuild_index(self, index: &str) -> Result<()> {
        self.tend("REINDEX INDEX CONCURRENTLY", index).await
    }

    /// Drops an index without blocking writes.
    pub(crate) async fn drop_index(self, index: &str) -> Result<()> {
        self.tend("DROP INDEX CONCURRENTLY IF EXISTS", index).await
    }

    /// A command that takes a name and no parameters.
    async fn tend(self, command: &str, name: &str) -> Result<()> {
        // The name comes from the catalog; quoted, it can be any.
        let text = format!("{command} {}.\"{}\"", self.statements.schema().quoted(), name.replace('"', "\"\""));
        self.connection.execute(sqlx::raw_sql(AssertSqlSafe(text))).await?;
        Ok(())
    }
}

/// Limits the statements of a connection that rebuilds.
pub(crate) async fn bound_rebuild(connection: &mut PgConnection) -> Result<()> {
    connection.execute(sqlx::raw_sql(REBUILD_BOUNDS)).await?;
    Ok(())
}
