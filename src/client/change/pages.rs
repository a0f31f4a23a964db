//! Changing the jobs that match a filter, page by page.
//!
//! A page has its rows locked until its commit, and until then no runner fetches those jobs and no result of theirs is
//! recorded. So one job that a transaction keeps locked for an hour must not make its page wait. Jobs that are not free
//! within [`LOCK_TIMEOUT`] are set aside, and the others are changed. After the last page the change waits for the jobs
//! set aside, as long as it takes, and holds no lock and no snapshot meanwhile. Where no job of the page is locked, a lock
//! on something else timed out, such as on the whole table: then the page is tried again after a pause, as often as it
//! takes.
//!
//! All that is so on a connection of the client's own. In the caller's transaction every lock lasts to its end anyway,
//! and the caller's own `lock_timeout` limits the waits.

use std::time::Duration;

use sqlx::PgConnection;

use super::batch::{Listeners, StatementLimits, change_batch};
use crate::client::Client;
use crate::error::Result;
use crate::store::{LogEntry, Verb, settle_within};
use crate::words::filter::JobFilter;
use crate::words::ident::JobId;

/// The most jobs in a page.
const PAGE: u32 = 1_000;

/// How long a page waits for a locked job: longer than a transaction of a runner takes.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// The pause before a page is tried again, or before the locks of jobs set aside are checked again. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A change to the jobs that match a filter.
pub(super) struct Pages<'a, 'l> {
    pub(super) client: &'a Client,
    pub(super) connection: &'a mut PgConnection,
    /// Whether the connection is the caller's, perhaps in a transaction. On the client's own each page is committed at
    /// once.
    pub(super) is_callers: bool,
    pub(super) verb: Verb,
    pub(super) filter: &'a JobFilter,
    /// How long a statement may take, on the client's own connection.
    pub(super) timeout: Option<Duration>,
    /// The row of the log, to which each page adds.
    pub(super) entry: &'a LogEntry,
    pub(super) listeners: &'a mut Listeners<'l>,
}

impl Pages<'_, '_> {
    /// Changes the jobs, and returns those that were changed.
    pub(super) async fn change_all(mut self) -> Result<Vec<JobId>> {
        // Jobs that are inserted later are not meant. Without this end a change could follow the inserts for ever.
        let Some(last) = self.last_id().await? else { return Ok(Vec::new()) };
        let limit = self.filter.0.limit.map(|limit| limit as usize);
        let mut after = JobId::from(uuid::Uuid::nil());
        let mut changed = Vec::new();
        let mut aside = Vec::new();
        loop {
            // Jobs set aside count against the limit: it means the oldest jobs, not the unlocked ones.
            let size = limit.map_or(PAGE as usize, |limit| limit.saturating_sub(changed.len() + aside.len()));
            let size = u32::try_from(size).unwrap_or(PAGE).min(PAGE);
            let ids = match size {
                0 => Vec::new(),
                _ => self.matching_ids(after, last, size).await?,
            };
            match ids.last() {
                Some(reached) => {
                    after = *reached;
                    changed.extend(self.change_page(ids, &mut aside).await?);
                }
                None if aside.is_empty() => return Ok(changed),
                // Then back to the pages: a job set aside that left the filter makes room under the limit.
                None => changed.extend(self.change_aside(&mut aside).await?),
            }
        }
    }

    /// The id at which the change ends.
    async fn last_id(&mut self) -> Result<Option<JobId>> {
        let (client, is_own) = (self.client, !self.is_callers);
        let connection = &mut *self.connection;
        Ok(settle_within!(self.timeout, is_own, connection, client.store(connection).last_id()))
    }

    /// The next ids, up to this many.
    async fn matching_ids(&mut self, after: JobId, last: JobId, size: u32) -> Result<Vec<JobId>> {
        let (client, filter, is_own) = (self.client, self.filter, !self.is_callers);
        let connection = &mut *self.connection;
        let matching = settle_within!(
            self.timeout,
            is_own,
            connection,
            client.store(connection).matching_ids(filter, after, last, size)
        );
        Ok(matching)
    }

    /// Changes the jobs of a page that are not locked, and sets the others aside.
    async fn change_page(&mut self, mut ids: Vec<JobId>, aside: &mut Vec<JobId>) -> Result<Vec<JobId>> {
        let lock = if self.is_callers { None } else { Some(LOCK_TIMEOUT) };
        let limits = StatementLimits { statement: self.timeout, lock };
        let mut pause = FIRST_PAUSE;
        while !ids.is_empty() {
            let states = self.filter.states_meant();
            let is_own = !self.is_callers;
            let (client, verb, entry) = (self.client, self.verb, self.entry);
            match change_batch(client, self.connection, verb, &ids, states, limits, is_own, entry).await {
                Ok(batch) => {
                    self.listeners.call(&batch);
                    return Ok(batch.changed);
                }
                Err(error) if lock.is_some() && error.is_lock_timeout() => {
                    let locked = self.client.store(self.connection).locked(&ids).await?;
                    if locked.is_empty() {
                        tracing::debug!(?pause, "a lock on something other than a job blocks a change: trying again");
                        // Each try leaves dead rows behind.
                        tokio::time::sleep(pause).await;
                        pause = LONGEST_PAUSE.min(pause * 2);
                        continue;
                    }
                    tracing::debug!(jobs = locked.len(), "locked jobs are set aside until a change finds them free");
                    ids.retain(|id| !locked.contains(id));
                    aside.extend(locked);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(ids)
    }

    /// Waits until one of the jobs set aside is free or gone, and changes those that are.
    async fn change_aside(&mut self, aside: &mut Vec<JobId>) -> Result<Vec<JobId>> {
        let mut pause = FIRST_PAUSE;
        loop {
            // Asks without waiting: each lock timeout would be an error in the server's log.
            let locked = self.client.store(self.connection).locked(aside).await?;
            let free: Vec<_> = aside.extract_if(.., |id| !locked.contains(id)).collect();
            if !free.is_empty() {
                return self.change_page(free, aside).await;
            }
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }
}
