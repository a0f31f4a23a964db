//! Jobs that no fetch can return: the database reports a damaged value in the row, or the row is larger than an answer can
//! be. One of them makes every fetch of its queue fail.
//!
//! After such a failure the runner reads the next jobs of its queues by their ids, bisected, and discards those that it
//! cannot read, with the database's error as the reason. A job that cannot even be discarded is set aside: the runner's
//! fetches leave it out.

use uuid::Uuid;

use super::shared::Shared;
use crate::bisection::Bisection;
use crate::error::{Error, Result};
use crate::store::{self, Slots};

/// PostgreSQL's answers and values end at 1 GB.
const MAX_BYTES: u64 = 1_000_000_000;

/// Jobs of this runner's queues that cannot be discarded either.
#[derive(Default)]
pub(super) struct Unreadable {
    pub(super) set_aside: Vec<Uuid>,
}

impl Unreadable {
    /// Whether a row may be the reason why a fetch failed.
    pub(super) fn may_explain(error: &Error) -> bool {
        const OUT_OF_MEMORY: &str = "53200";
        let code = match error {
            Error::Database(sqlx::Error::Database(database)) => database.code(),
            _ => None,
        };
        match code.as_deref() {
            Some(OUT_OF_MEMORY) => true,
            // Data exceptions, limits, and internal errors, of which a damaged value is one.
            Some(code) => ["22", "54", "XX"].iter().any(|class| code.starts_with(class)),
            None => false,
        }
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
            let mut connection = shared.connections.connection().await?;
            let reading = store::bytes_of_jobs(&mut connection, statements, &part);
            let read = shared.connections.answer(reading).await;
            let reason = match connection.settle(read) {
                Ok(bytes) if bytes < MAX_BYTES => {
                    bisection.accepted();
                    continue;
                }
                Ok(bytes) => format!("the job's row cannot be fetched: it has {bytes} bytes"),
                Err(error) if Self::may_explain(&error) => format!("the job's row cannot be read: {error}"),
                Err(error) => return Err(error),
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
