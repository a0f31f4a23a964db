//! Fetching the next jobs.

use sqlx::PgConnection;
use uuid::Uuid;

use super::row::job_row;
use super::{Statements, query};
use crate::error::Result;
use crate::ident::QueueName;
use crate::job::JobRow;

/// How many jobs a runner can take from a queue now.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) queue: QueueName,
    pub(crate) free: usize,
}

/// Takes up to the free slots of each queue, of the given kinds only, in the order of work.
pub(crate) async fn fetch(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    slots: &[Slots],
    kinds: &[String],
) -> Result<Vec<JobRow>> {
    let queues: Vec<_> = slots.iter().map(|slot| slot.queue.as_str()).collect();
    let free: Vec<_> = slots.iter().map(|slot| i32::try_from(slot.free).unwrap_or(i32::MAX)).collect();
    let rows =
        query(&statements.fetch).bind(&queues).bind(&free).bind(kinds).bind(worker).fetch_all(connection).await?;
    let mut jobs = rows.iter().map(|row| job_row(row, None)).collect::<Result<Vec<_>>>()?;
    // UPDATE gives rows back in no promised order.
    jobs.sort_by(|a, b| {
        (b.priority.cmp(&a.priority)).then_with(|| (a.scheduled_at, a.id).cmp(&(b.scheduled_at, b.id)))
    });
    Ok(jobs)
}
