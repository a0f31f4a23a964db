//! Fetching the next jobs.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::row::job_row;
use super::{Statements, query};
use crate::error::Result;
use crate::ident::{JobId, Kind, QueueName};
use crate::job::JobRow;

/// How many jobs a runner can take from a queue now.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) queue: QueueName,
    pub(crate) free: usize,
}

/// What a fetch took: all of it is running since.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) jobs: Vec<JobRow>,
    pub(crate) unreadable: Vec<Unreadable>,
}

/// A job whose row cannot be read, such as one whose `errors` somebody wrote by hand. It must not
/// keep the jobs that were fetched with it from their workers.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) id: JobId,
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    pub(crate) attempt: u16,
    pub(crate) problem: String,
}

/// Takes up to the free slots of each queue, of the given kinds only, in the order of work.
pub(crate) async fn fetch(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    slots: &[Slots],
    kinds: &[String],
) -> Result<Fetched> {
    let queues: Vec<_> = slots.iter().map(|slot| slot.queue.as_str()).collect();
    let free: Vec<_> = slots.iter().map(|slot| i32::try_from(slot.free).unwrap_or(i32::MAX)).collect();
    let rows =
        query(&statements.fetch).bind(&queues).bind(&free).bind(kinds).bind(worker).fetch_all(connection).await?;
    let mut fetched = Fetched::default();
    for row in &rows {
        match job_row(row) {
            Ok(job) => fetched.jobs.push(job),
            Err(error) => fetched.unreadable.push(Unreadable {
                id: JobId::from(row.try_get::<Uuid, _>("id")?),
                kind: Kind::from_stored(row.try_get("kind")?),
                queue: QueueName::from_stored(row.try_get("queue")?),
                attempt: row.try_get::<i16, _>("attempt")?.unsigned_abs(),
                problem: format!("the job's row cannot be read: {error}"),
            }),
        }
    }
    // UPDATE gives rows back in no promised order.
    fetched.jobs.sort_by(|a, b| {
        (b.priority.cmp(&a.priority)).then_with(|| (a.scheduled_at, a.id).cmp(&(b.scheduled_at, b.id)))
    });
    Ok(fetched)
}

/// Gives back the jobs that run under this lease according to the database and are not in hand.
/// Answers how many it was.
pub(crate) async fn give_back(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    in_hand: &[Uuid],
) -> Result<i64> {
    let row = query(&statements.give_back).bind(worker).bind(in_hand).fetch_optional(connection).await?;
    Ok(row.map_or(Ok(0), |row| row.try_get("given_back"))?)
}
