//! Rebuilds indexes that have become far larger than their contents need.
//!
//! The B-trees of a queue grow with a backlog and do not shrink with it, and pages that many deletions left nearly empty
//! stay so. A rebuild is expensive, so it must be worth it: an index counts as bloated at three times the size that it
//! needs. An index that fills at random settles at about one and a half times, and the need is estimated generously from
//! a fresh ANALYZE.
//!
//! The reindexer rebuilds one index after another, CONCURRENTLY, on a connection of its own, so that no other service
//! waits. After a stop, the rebuild that is under way ends in the database.
//!
//! A rebuild that fails leaves an invalid index behind, which costs every write. It usually fails because of a
//! transaction that is open for long, which also blocks the drop of the invalid index and the next rebuild. So the first
//! failure ends the run. The next checks try to drop the invalid index, and nothing is rebuilt while there is one: there
//! is never more than one.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::lease::Holder;
use super::service::Service;
use crate::error::Result;
use crate::store::{self, BloatedIndex};

/// How often the reindexer checks whether a run is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// The smallest index that is worth a rebuild: 8 MB.
const PAGES: i64 = 1_024;

/// An index this many times as large as it needs to be is bloated.
const FACTOR: i64 = 3;

#[derive(Debug)]
pub(crate) struct Reindexer {
    interval: Duration,
    /// Whether the missing ownership was logged already.
    has_logged: bool,
}

impl Reindexer {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self { interval, has_logged: false }
    }

    /// Whether failed rebuilds left invalid indexes behind, and whether a run is due with tables to examine.
    async fn check(&self, holder: &Holder) -> Result<(bool, bool)> {
        let failed = holder.ask(async |store| store.failed_indexes().await).await?;
        let has_invalid = failed.iter().any(|(_, is_owner)| *is_owner);
        // A run that invalid indexes prevent is still due when they are gone.
        let has_work = !has_invalid
            && holder.ask(async |store| store.begin_run(self.name(), self.interval).await).await?
            && !holder.ask(async |store| store.large_tables(PAGES).await).await?.is_empty();
        Ok((has_invalid, has_work))
    }

    /// Rebuilds the bloated indexes.
    async fn rebuild(&mut self, connection: &mut PgConnection, holder: &Holder) -> Result<()> {
        let client = &holder.client;
        for (table, is_owner) in client.store(connection).large_tables(PAGES).await? {
            if is_owner {
                client.store(connection).analyze(&table).await?;
            } else if !std::mem::replace(&mut self.has_logged, true) {
                tracing::info!(table, "not searched for bloated indexes: the runner's role does not own the table");
            }
        }
        let bloated = client.store(connection).bloated_indexes(PAGES, FACTOR).await?;
        for BloatedIndex { name, pages, needed, is_owner } in bloated {
            if !is_owner {
                continue;
            }
            tracing::info!(index = name, pages, needed, "rebuilding a bloated index");
            if let Err(error) = client.store(connection).rebuild_index(&name).await {
                tracing::warn!(index = name, %error, "index not rebuilt: no other is rebuilt in this run");
                return drop_invalid(connection, holder).await;
            }
        }
        Ok(())
    }
}

/// Drops the invalid indexes that failed rebuilds left behind. An index that is being built is locked, and stays.
async fn drop_invalid(connection: &mut PgConnection, holder: &Holder) -> Result<()> {
    for (name, is_owner) in holder.client.store(connection).failed_indexes().await? {
        if !is_owner {
            continue;
        }
        match holder.client.store(connection).drop_index(&name).await {
            Ok(()) => tracing::info!(index = name, "dropped the invalid index of a failed rebuild"),
            Err(error) => {
                tracing::warn!(index = name, %error, "the invalid index of a failed rebuild cannot be dropped yet")
            }
        }
    }
    Ok(())
}

impl Service for Reindexer {
    fn name(&self) -> &'static str {
        "reindexer"
    }

    // A rebuild of a large index may take hours.
    const LONGEST_RUN: Duration = Duration::from_secs(86_400);

    fn margin(&self) -> Duration {
        // Long enough for most runs: another holder meanwhile would only wait for the same locks.
        Duration::from_secs(3600)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let (has_invalid, has_work) = holder.connection.within_a_run(self.check(holder)).await?;
        // The connection is opened only when there is work for it.
        if has_invalid || has_work {
            let mut connection = holder.connection.open_another().await?;
            store::bound_rebuild(&mut connection).await?;
            let done = match has_invalid {
                true => drop_invalid(&mut connection, holder).await,
                false => self.rebuild(&mut connection, holder).await,
            };
            let _ = connection.close().await;
            done?;
        }
        Ok(CHECK_INTERVAL.min(self.interval))
    }
}
