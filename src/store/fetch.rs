//! Fetching the next jobs.

use std::time::Duration;

use serde_json::value::RawValue;
use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::{Stored, count};
use super::{Statements, query};
use crate::error::Result;
use crate::ident::{JobId, Kind, QueueName};
use crate::job::JobRow;
use crate::state::JobState;
use crate::unique::StateSet;

/// The place of a job's first column; what the scan was stands before.
const FIRST_OF_JOB: usize = 5;

/// How many jobs a runner can take from a queue now.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) queue: QueueName,
    pub(crate) free: usize,
}

/// A place in a queue, behind which a fetch begins to look.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) queue: QueueName,
    pub(crate) priority: i16,
    pub(crate) scheduled_at: OffsetDateTime,
    pub(crate) id: Uuid,
}

/// What a fetch took: all of it is running since.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) jobs: Vec<JobRow>,
    pub(crate) unreadable: Vec<Unreadable>,
    /// When the look began, by the database's clock.
    pub(crate) began_at: OffsetDateTime,
    /// How long the database looked for the jobs.
    pub(crate) took: Duration,
    /// The queues that gave fewer jobs than they have, or none: paused ones, and full ones.
    pub(crate) held_back: Vec<QueueName>,
    /// The queues with a limit over all runners.
    pub(crate) limited: Vec<QueueName>,
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

/// Takes up to the free slots of each queue, of the given kinds only, in the order of work. Queues
/// with places are looked at behind those only, which come with the highest priority first.
pub(crate) async fn fetch(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    slots: &[Slots],
    kinds: &[String],
    places: &[Place],
) -> Result<Fetched> {
    let queues: Vec<_> = slots.iter().map(|slot| slot.queue.as_str()).collect();
    let free: Vec<_> = slots.iter().map(|slot| i32::try_from(slot.free).unwrap_or(i32::MAX)).collect();
    let rows = query(&statements.fetch)
        .bind(&queues)
        .bind(&free)
        .bind(kinds)
        .bind(worker)
        .bind(places.iter().map(|place| place.queue.as_str()).collect::<Vec<_>>())
        .bind(places.iter().map(|place| place.priority).collect::<Vec<_>>())
        .bind(places.iter().map(|place| place.scheduled_at).collect::<Vec<_>>())
        .bind(places.iter().map(|place| place.id).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let (look, jobs) = rows.split_first().ok_or(sqlx::Error::RowNotFound)?;
    let mut fetched = Fetched {
        jobs: Vec::with_capacity(jobs.len()),
        unreadable: Vec::new(),
        began_at: look.try_get("began_at")?,
        took: look
            .try_get::<PgInterval, _>("took")
            .map(|took| Duration::from_micros(took.microseconds.max(0).unsigned_abs()))?,
        held_back: queue_names(look, "held_back")?,
        limited: queue_names(look, "limited")?,
    };
    let usual = Usual {
        kind: kinds.first().map_or("", String::as_str),
        queue: queues.first().copied().unwrap_or_default(),
        attempted_at: look.try_get::<Stored, _>("attempted_at")?.0,
        worker,
    };
    for row in jobs {
        match usual.job(row) {
            Ok(job) => fetched.jobs.push(job),
            Err(error) => fetched.unreadable.push(Unreadable {
                id: JobId::from(row.try_get::<Uuid, _>("id")?),
                kind: usual.kind(row.try_get("kind")?),
                queue: usual.queue(row.try_get("queue")?),
                attempt: count(row.try_get("attempt")?),
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

/// What a fetched job is like where its row does not say otherwise.
struct Usual<'a> {
    kind: &'a str,
    queue: &'a str,
    attempted_at: OffsetDateTime,
    worker: Uuid,
}

impl Usual<'_> {
    /// Reads a fetched job. By place, in the order in which fetch.sql returns it.
    fn job(&self, row: &PgRow) -> Result<JobRow> {
        let mut places = FIRST_OF_JOB..;
        let mut next = || places.next().unwrap_or_default();
        let id = JobId::from(row.try_get::<Uuid, _>(next())?);
        let attempt = count(row.try_get(next())?);
        let scheduled_at = row.try_get::<Stored, _>(next())?.0;
        Ok(JobRow {
            id,
            attempt,
            scheduled_at,
            args: row.try_get::<Box<RawValue>, _>(next())?,
            kind: self.kind(row.try_get(next())?),
            queue: self.queue(row.try_get(next())?),
            created_at: row.try_get::<Option<Stored>, _>(next())?.map_or(scheduled_at, |at| at.0),
            priority: row.try_get::<Option<i16>, _>(next())?.unwrap_or(0),
            max_attempts: row.try_get::<Option<i16>, _>(next())?.map_or(25, count),
            meta: row.try_get::<Option<Json<_>>, _>(next())?.map(|meta| meta.0).unwrap_or_default(),
            errors: row.try_get::<Option<Json<_>>, _>(next())?.map(|errors| errors.0).unwrap_or_default(),
            output: row.try_get(next())?,
            progress: row.try_get(next())?,
            unique_key: row.try_get(next())?,
            unique_states: row.try_get::<Option<i16>, _>(next())?.and_then(StateSet::from_bits),
            unique_until: row.try_get::<Option<Stored>, _>(next())?.map(|at| at.0),
            claims: row.try_get::<Option<bool>, _>(next())?.unwrap_or(false),
            until_start: row.try_get::<Option<bool>, _>(next())?.unwrap_or(false),
            replaced_by: row.try_get::<Option<Uuid>, _>(next())?.map(JobId::from),
            state: JobState::Running,
            attempted_at: Some(self.attempted_at),
            finalized_at: None,
            worker: Some(self.worker),
        })
    }

    fn kind(&self, other: Option<&str>) -> Kind {
        Kind::from_stored(other.unwrap_or(self.kind).to_owned())
    }

    fn queue(&self, other: Option<&str>) -> QueueName {
        QueueName::from_stored(other.unwrap_or(self.queue).to_owned())
    }
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

fn queue_names(look: &PgRow, column: &str) -> Result<Vec<QueueName>> {
    let names = look.try_get::<Option<Vec<String>>, _>(column)?.unwrap_or_default();
    Ok(names.into_iter().map(QueueName::from_stored).collect())
}
