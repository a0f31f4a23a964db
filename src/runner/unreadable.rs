//! Jobs that no fetch can return: the database reports a damaged value in the row, or the row is larger than an answer can
//! be. One of them makes every fetch of its queue fail.
//!
//! After such a failure the runner reads the next jobs of its queues by their ids, bisected, and discards those that it
//! cannot read, with the database's error as the reason. A job that cannot even be discarded is set aside: the runner's
//! fetches leave it out.

use std::time::Duration;

use uuid::Uuid;

use super::shared::Shared;
use crate::bisection::Bisection;
use crate::error::{Error, Result};
use crate::store::{self, Slots};

/// PostgreSQL's answers and values end at 1 GB.
const MAX_BYTES: u64 = 1_000_000_000;

/// A job is discarded after this many reads in a row that failed: an error that passes costs no job.
const READS: u32 = 3;

/// The wait between these reads.
const BETWEEN_READS: Duration = Duration::from_millis(200);

/// Jobs of this runner's queues that cannot be discarded either.
#[derive(Default)]
pub(super) struct Unreadable {
    pub(super) set_aside: Vec<Uuid>,
}

impl Unreadable {
    /// Whether a row may be the reason why a fetch failed.
    pub(super) fn may_explain(error: &Error) -> bool {
        // Data exceptions, limits, and internal errors, of which a damaged value is one. Not a server that lacks memory.
        const CLASSES: [&str; 3] = ["22", "54", "XX"];
        let Error::Database(sqlx::Error::Database(database)) = error else { return false };
        database.code().is_some_and(|code| CLASSES.iter().any(|class| code.starts_with(class)))
    }

    /// Discards the next jobs that cannot be read. Answers with how many are out of the way now.
    pub(super) async fn remove(&mut self, shared: &Shared, wanted: &[Slots]) -> Result<usize> {
        let (statements, kinds) = (shared.client.statements(), &shared.workers.kinds);
        let mut connection = shared.connections.connection().await?;
        let asking = store::next_jobs(&mut connection, statements, wanted, kinds, &self.set_aside);
        let next = shared.connections.answer(asking).await;
        let mut bisection = Bisection::new(connection.settle(next)?);
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

    async fn discard(&mut self, shared: &Shared, id: Uuid, reason: &str) -> Result<()> {
        tracing::error!(job.id = %id, reason, "a job stops every fetch of its queue: it is discarded");
        for keep_errors in [true, false] {
            let mut connection = shared.connections.connection().await?;
            let statements = shared.client.statements();
            let discarding = store::discard_unreadable(&mut connection, statements, id, reason, keep_errors);
            let discarded = shared.connections.answer(discarding).await;
            match connection.settle(discarded) {
                Err(error) if Self::may_explain(&error) => {
                    tracing::error!(job.id = %id, %error, keep_errors, "a job that cannot be read cannot be discarded");
                }
                discarded => return discarded,
            }
        }
        tracing::error!(job.id = %id, "a job that cannot be discarded is left out of this runner's fetches");
        self.set_aside.push(id);
        Ok(())
    }
}

/// Why these jobs cannot be fetched together. `None`: they can.
async fn unreadable(shared: &Shared, ids: &[Uuid]) -> Result<Option<String>> {
    let mut connection = shared.connections.connection().await?;
    let reading = store::bytes_of_jobs(&mut connection, shared.client.statements(), ids);
    let read = shared.connections.answer(reading).await;
    match connection.settle(read) {
        Ok(bytes) if bytes < MAX_BYTES => Ok(None),
        Ok(bytes) => Ok(Some(format!("the job's row cannot be fetched: it has {bytes} bytes"))),
        Err(error) if Unreadable::may_explain(&error) => Ok(Some(format!("the job's row cannot be read: {error}"))),
        Err(error) => Err(error),
    }
}
