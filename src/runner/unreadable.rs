//! Jobs that no fetch can return: the database reports a damaged value in the row, or the row is larger than an answer can
//! be. One of them makes every fetch of its queue fail.
//!
//! After such a failure the runner reads the next jobs of its queues by their ids, bisected, and discards those that it
//! cannot read, with the database's error as the reason. A job that cannot even be discarded is set aside: the runner's
//! fetches leave it out.
//!
//! A row can also be too large for its answer to come in time. Where not even a fetch of single jobs does, the runner reads
//! each of them by itself. It discards a large job that does not come within half of a fetch's time, twice in a row,
//! while the database answers other statements.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::job_limit::is_too_slow;
use super::shared::Shared;
use crate::bisection::Bisection;
use crate::client::answer;
use crate::error::Result;
use crate::store::{self, Slots};

/// PostgreSQL's answers and values end at 1 GB.
const MAX_BYTES: u64 = 1_000_000_000;

/// A job is discarded after this many reads in a row that failed: an error that passes costs no job.
const READS: u32 = 3;

/// The wait between these reads.
const BETWEEN_READS: Duration = Duration::from_millis(200);

/// The wait between two tries to discard a job that is locked.
const BETWEEN_TRIES: Duration = Duration::from_secs(2);

/// A job that is too large is read so often alone. The server goes on with a read that was given up, so not more often.
const SLOW_READS: u32 = 2;

/// A smaller row is never the reason why its answer does not come in time.
const MIN_SLOW_BYTES: u64 = 1 << 20;

/// Jobs of this runner's queues that cannot be discarded either, or not yet.
pub(super) struct Unreadable {
    pub(super) set_aside: Vec<Uuid>,
    /// Those of them that are to be discarded once their locks are free, with the reasons.
    locked: Vec<(Uuid, String)>,
    retry_at: Instant,
}

impl Unreadable {
    pub(super) fn new(now: Instant) -> Self {
        Self { set_aside: Vec::new(), locked: Vec::new(), retry_at: now }
    }

    /// Discards the next jobs that cannot be read. Answers with how many are out of the way now.
    pub(super) async fn remove(&mut self, shared: &Shared, wanted: &[Slots]) -> Result<usize> {
        let mut bisection = Bisection::new(self.next_jobs(shared, wanted).await?);
        let mut removed = 0;
        while let Some(part) = bisection.next_part() {
            let mut reason = unreadable(shared, &part).await?;
            if part.len() == 1 {
                for _ in 1..READS {
                    if reason.is_some() {
                        tokio::time::sleep(BETWEEN_READS).await;
                        reason = unreadable(shared, &part).await?;
                    }
                }
            }
            let Some(reason) = reason else {
                bisection.accepted();
                continue;
            };
            if let Some(id) = bisection.refused(part) {
                self.discard(shared, id, &reason).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Discards the first job of each queue that is too large to come in time. Answers with how many are out of the way now.
    pub(super) async fn remove_slow(&mut self, shared: &Shared, wanted: &[Slots]) -> Result<usize> {
        let (statements, kinds) = (shared.client.statements(), &shared.workers.kinds);
        let mut connection = shared.connections.connection().await?;
        let asking = store::first_jobs(&mut connection, statements, wanted, kinds, &self.set_aside);
        let first = shared.connections.answer(asking).await;
        let mut removed = 0;
        for id in connection.settle(first)? {
            if let Some(reason) = too_slow(shared, id).await? {
                self.discard(shared, id, &reason).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Tries once more to discard the jobs that were locked.
    pub(super) async fn discard_locked(&mut self, shared: &Shared) {
        if self.locked.is_empty() || self.retry_at > Instant::now() {
            return;
        }
        for (id, reason) in std::mem::take(&mut self.locked) {
            self.set_aside.retain(|other| *other != id);
            if let Err(error) = self.discard(shared, id, &reason).await {
                tracing::warn!(job.id = %id, %error, "could not discard a job that stops every fetch");
                self.keep_locked(id, &reason);
            }
        }
    }

    fn keep_locked(&mut self, id: Uuid, reason: &str) {
        self.set_aside.push(id);
        self.locked.push((id, reason.to_owned()));
        self.retry_at = Instant::now() + BETWEEN_TRIES;
    }

    async fn next_jobs(&self, shared: &Shared, wanted: &[Slots]) -> Result<Vec<Uuid>> {
        let (statements, kinds) = (shared.client.statements(), &shared.workers.kinds);
        let mut connection = shared.connections.connection().await?;
        let asking = store::next_jobs(&mut connection, statements, wanted, kinds, &self.set_aside);
        let next = shared.connections.answer(asking).await;
        connection.settle(next)
    }

    async fn discard(&mut self, shared: &Shared, id: Uuid, reason: &str) -> Result<()> {
        tracing::error!(job.id = %id, reason, "a job stops every fetch of its queue: it is discarded");
        for keep_errors in [true, false] {
            let mut connection = shared.connections.connection().await?;
            let statements = shared.client.statements();
            let discarding = store::discard_unreadable(&mut connection, statements, id, reason, keep_errors);
            let discarded = shared.connections.answer(discarding).await;
            match connection.settle(discarded) {
                Err(error) if store::is_of_a_row(&error) => {
                    tracing::error!(job.id = %id, %error, keep_errors, "a job that cannot be read cannot be discarded");
                }
                // The server may still be at work on the fetch that was given up, and hold the job's lock.
                Err(error) if is_too_slow(&error) => {
                    tracing::warn!(job.id = %id, "the job is locked: it is left out of fetches, and discarded later");
                    self.keep_locked(id, reason);
                    return Ok(());
                }
                discarded => return discarded,
            }
        }
        tracing::error!(job.id = %id, "a job that cannot be discarded is left out of this runner's fetches");
        self.set_aside.push(id);
        Ok(())
    }
}

/// Why these jobs cannot be fetched together. `None`: they can, or a single job is only slow to read.
async fn unreadable(shared: &Shared, ids: &[Uuid]) -> Result<Option<String>> {
    let mut connection = shared.connections.connection().await?;
    let reading = store::bytes_of_jobs(&mut connection, shared.client.statements(), ids);
    let read = shared.connections.answer(reading).await;
    match connection.settle(read) {
        Ok(bytes) if bytes < MAX_BYTES => Ok(None),
        Ok(bytes) => Ok(Some(format!("the job's row cannot be fetched: it has {bytes} bytes"))),
        Err(error) if store::is_of_a_row(&error) => Ok(Some(format!("the job's row cannot be read: {error}"))),
        // Fewer of them may be read in time.
        Err(error) if is_too_slow(&error) => Ok((ids.len() > 1).then(|| error.to_string())),
        Err(error) => Err(error),
    }
}

/// Why this job cannot be fetched in time. `None`: it can, or the job is not the reason.
async fn too_slow(shared: &Shared, id: Uuid) -> Result<Option<String>> {
    let (statements, ids) = (shared.client.statements(), [id]);
    // A fetch does more than a read.
    let limit = shared.connections.timeout() / 2;
    for _ in 0..SLOW_READS {
        let mut connection = shared.connections.connection().await?;
        match answer::within(limit, store::job_by_id(&mut connection, statements, id.into())).await {
            // Dropped, so that the answer ends here.
            Err(error) if is_too_slow(&error) => drop(connection),
            // It came, or what is wrong with it shows in a fetch.
            read => {
                let _ = connection.settle(read);
                return Ok(None);
            }
        }
        tokio::time::sleep(limit).await;
        // The same row without its values, over another connection: an error where it is the database that is slow.
        let mut connection = shared.connections.connection().await?;
        let checking = store::not_completed(&mut connection, statements, &ids);
        let checked = answer::within(limit, checking).await;
        connection.settle(checked)?;
    }
    let mut connection = shared.connections.connection().await?;
    let measuring = store::bytes_of_jobs(&mut connection, statements, &ids);
    let measured = shared.connections.answer(measuring).await;
    match connection.settle(measured) {
        Ok(bytes) if bytes < MIN_SLOW_BYTES => Ok(None),
        Ok(bytes) => Ok(Some(format!("the job's row cannot be fetched within {limit:?}: it has {bytes} bytes"))),
        Err(error) if is_too_slow(&error) => Ok(Some(format!("the job's row cannot be read within {limit:?}"))),
        Err(error) => Err(error),
    }
}
