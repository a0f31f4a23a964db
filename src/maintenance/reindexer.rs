//! Rebuilds indexes that have become far larger than what is in them.
//!
//! B-trees of a queue grow with a backlog and do not shrink with it, and pages that a rush of
//! deletions left nearly empty stay so. A rebuild is dear, so it must be worth it: an index is taken
//! for bloated when it is three times as large as it needs to be. One that fills at random settles at
//! about one and a half times, and what is needed is reckoned generously from a fresh ANALYZE.
//!
//! One index after another, CONCURRENTLY, on a connection of its own, so that no other service waits.
//! A stop lets the one that is under way end in the database.
//!
//! A rebuild that fails leaves an invalid index behind, which every write pays for. What makes it fail,
//! a transaction that is open for long, keeps the leftover from being dropped as well and would fail the
//! next rebuild. So the first failure ends the run, leftovers are tried again at each look, and nothing
//! is rebuilt while there is one: there is never more than one.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::{Holder, Service};
use crate::error::Result;
use crate::store::{self, BloatedIndex};

/// How often it is asked whether a run is due.
const LOOK: Duration = Duration::from_secs(300);

/// The smallest index that is worth a rebuild: 8 MB.
const PAGES: i64 = 1_024;

/// How many times as large as needed.
const FACTOR: i64 = 3;

#[derive(Debug)]
pub(crate) struct Reindexer {
    interval: Duration,
    /// Whether it was said already that the role may not do it.
    has_complained: bool,
}

impl Reindexer {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self { interval, has_complained: false }
    }

    /// Whether failed rebuilds left something behind, and whether there is something to look at.
    async fn look(&self, holder: &Holder) -> Result<(bool, bool)> {
        let mut session = holder.connection.session().await?;
        let (connection, statements) = (session.connection(), &holder.statements);
        let has_leftovers = store::failed_indexes(connection, statements).await?.iter().any(|(_, is_owner)| *is_owner);
        // A run that leftovers forbid is still due when they are gone.
        let has_work = !has_leftovers
            && store::begin_run(connection, statements, Self::NAME, self.interval).await?
            && !store::large_tables(connection, statements, PAGES).await?.is_empty();
        session.end().await?;
        Ok((has_leftovers, has_work))
    }

    /// Rebuilds what is bloated.
    async fn walk(&mut self, connection: &mut PgConnection, holder: &Holder) -> Result<()> {
        let statements = &holder.statements;
        for (table, is_owner) in store::large_tables(connection, statements, PAGES).await? {
            if is_owner {
                store::analyze(connection, statements, &table).await?;
            } else if !std::mem::replace(&mut self.has_complained, true) {
                tracing::info!(table, "bloated indexes are not looked for: the runner's role does not own the table");
            }
        }
        let bloated = store::bloated_indexes(connection, statements, PAGES, FACTOR).await?;
        for BloatedIndex { name, pages, needed, is_owner } in bloated {
            if !is_owner {
                continue;
            }
            tracing::info!(index = name, pages, needed, "rebuilding a bloated index");
            if let Err(error) = store::rebuild_index(connection, statements, &name).await {
                tracing::warn!(index = name, %error, "index not rebuilt, and no other one in this run");
                return clear(connection, holder).await;
            }
        }
        Ok(())
    }
}

/// Drops what failed rebuilds left behind. One that is under way holds a lock, and is left alone.
async fn clear(connection: &mut PgConnection, holder: &Holder) -> Result<()> {
    for (name, is_owner) in store::failed_indexes(connection, &holder.statements).await? {
        if !is_owner {
            continue;
        }
        match store::drop_index(connection, &holder.statements, &name).await {
            Ok(()) => tracing::info!(index = name, "dropped what a failed rebuild left behind"),
            Err(error) => tracing::warn!(index = name, %error, "what a failed rebuild left behind is still there"),
        }
    }
    Ok(())
}

impl Service for Reindexer {
    const NAME: &'static str = "reindexer";

    // A rebuild takes as long as it takes.
    const LONGEST_TURN: Duration = Duration::from_secs(86_400);

    fn margin(&self) -> Duration {
        // Long enough for most runs: another one meanwhile would only wait for the same locks.
        Duration::from_secs(3600)
    }

    async fn run_once(&mut self, holder: &Holder) -> Result<Duration> {
        let (has_leftovers, has_work) = holder.connection.answer(self.look(holder)).await?;
        // A connection is opened only for what there is to do.
        if has_leftovers || has_work {
            let mut connection = holder.connection.another().await?;
            store::bound_rebuild(&mut connection).await?;
            let done = match has_leftovers {
                true => clear(&mut connection, holder).await,
                false => self.walk(&mut connection, holder).await,
            };
            let _ = connection.close().await;
            done?;
        }
        Ok(LOOK.min(self.interval))
    }
}
