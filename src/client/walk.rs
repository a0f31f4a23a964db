//! Changing the jobs that a filter means, batch by batch.
//!
//! A batch has its rows locked until it is committed, and by then nobody fetches those jobs and no result
//! of theirs is taken. So one job that somebody keeps locked (a worker's transaction that is open for an
//! hour) must not make its batch wait. What is not to be had within [`PATIENCE`] is set aside, and the
//! others are changed; when the walk is over it comes back to the jobs set aside, as long as it takes, and
//! meanwhile holds no lock and no snapshot. Where none of the batch is locked, what held it up was something else, such
//! as a lock on a whole table: it is tried again after a pause, as often as it takes.
//!
//! That is so on a connection of our own. In the caller's transaction every lock is kept to its end
//! anyway, and the caller's own `lock_timeout` says how long to wait.

use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::change::{Listener, change_batch};
use crate::error::Result;
use crate::filter::JobFilter;
use crate::ident::JobId;
use crate::store::{self, Verb};

/// How many jobs a change by a filter takes in one statement.
const BATCH: u32 = 1_000;

/// How long a batch waits for a job that somebody has locked: longer than whoever works in order.
const PATIENCE: Duration = Duration::from_millis(100);

/// How soon it looks again whether the jobs set aside are free, or tries a batch again. Each time it waits twice as long,
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A change on its way through the jobs that a filter means.
pub(super) struct Walk<'a, 'l> {
    pub(super) client: &'a Client,
    pub(super) connection: &'a mut PgConnection,
    pub(super) place: Place,
    pub(super) verb: Verb,
    pub(super) filter: &'a JobFilter,
    pub(super) listener: &'a mut Listener<'l>,
}

/// Where a change is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// On a connection of our own: each batch is committed at once.
    Ours,
    /// On the caller's, perhaps in a transaction.
    Callers,
}

impl Walk<'_, '_> {
    /// Changes them, and answers with those that were.
    pub(super) async fn run(mut self) -> Result<Vec<JobId>> {
        let statements = self.client.statements();
        // What comes later is not meant. Without this end a walk would run after inserters for ever.
        let Some(last) = store::last_id(self.connection, statements).await? else {
            return Ok(Vec::new());
        };
        let limit = self.filter.limit.map(|limit| limit as usize);
        let mut after = JobId::from(uuid::Uuid::nil());
        let mut changed = Vec::new();
        let mut aside = Vec::new();
        let mut is_through = false;
        while !is_through {
            // Those set aside count against the limit: it means the oldest jobs, not those that are free.
            let size = limit.map_or(BATCH as usize, |limit| limit.saturating_sub(changed.len() + aside.len()));
            let size = u32::try_from(size).unwrap_or(BATCH).min(BATCH);
            let ids = match size {
                0 => Vec::new(),
                _ => store::matching_ids(self.connection, statements, self.filter, after, last, size).await?,
            };
            match ids.last() {
                Some(reached) => {
                    after = *reached;
                    changed.extend(self.change(ids, &mut aside).await?);
                }
                None if aside.is_empty() => is_through = true,
                // Then on, should one of them have left the filter, so that the limit is not reached yet.
                None => changed.extend(self.change_aside(&mut aside).await?),
            }
        }
        Ok(changed)
    }

    /// Changes those of a batch that are to be had, and sets the others aside.
    async fn change(&mut self, mut ids: Vec<JobId>, aside: &mut Vec<JobId>) -> Result<Vec<JobId>> {
        let patience = match self.place {
            Place::Ours => Some(PATIENCE),
            Place::Callers => None,
        };
        let mut pause = FIRST_PAUSE;
        loop {
            let states = self.filter.states_meant();
            match change_batch(self.client, self.connection, self.verb, &ids, states, patience).await {
                Ok(batch) => {
                    self.listener.tell(&batch);
                    return Ok(batch.changed);
                }
                Err(error) if patience.is_some() && error.is_lock_timeout() => {
                    let locked = store::locked(self.connection, self.client.statements(), &ids).await?;
                    if locked.is_empty() {
                        tracing::debug!(?pause, "a change is held up, and by no locked job: it is tried again");
                        // Each try leaves its rows behind as dead ones.
                        tokio::time::sleep(pause).await;
                        pause = LONGEST_PAUSE.min(pause * 2);
                        continue;
                    }
                    tracing::debug!(
                        jobs = locked.len(),
                        "somebody has jobs locked: they are changed when they are free"
                    );
                    ids.retain(|id| !locked.contains(id));
                    aside.extend(locked);
                    if ids.is_empty() {
                        return Ok(ids);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until one of the jobs set aside is free or gone, and changes those that are.
    async fn change_aside(&mut self, aside: &mut Vec<JobId>) -> Result<Vec<JobId>> {
        let mut pause = FIRST_PAUSE;
        loop {
            // Asked without waiting: a wait for a lock would end in an error in the server's log each time.
            let locked = store::locked(self.connection, self.client.statements(), aside).await?;
            let free: Vec<_> = aside.extract_if(.., |id| !locked.contains(id)).collect();
            if !free.is_empty() {
                return self.change(free, aside).await;
            }
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }
}
