//! Fetching the next jobs.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::{Stored, count, run_number};
use super::turn::end_turn;
use super::{Statements, query};
use crate::error::{Error, Result};
use crate::ident::{JobId, Kind, QueueName};
use crate::job::{AttemptError, JobRow};
use crate::state::JobState;
use crate::unique::StateSet;

/// The places of the columns that a fetch returns: a job; and what the look was, in the last row of fetch.sql. In
/// fetch_queue.sql's there is instead when the job was started: one column more is for few jobs.
const ID: usize = 0;
const ATTEMPT: usize = 1;
const RUN: usize = 2;
const SCHEDULED_AT: usize = 3;
const ARGS: usize = 4;
const UNIQUE_KEY: usize = 5;
const UNIQUE_STATES: usize = 6;
const PARTICULARS: usize = 7;
const PAPERS: usize = 8;
const LOOK: usize = 9;
const ATTEMPTED_AT: usize = 9;

/// When the scan began and ended; the queues that are held back, and those with a limit.
type Look = (Stored, Stored, Option<Vec<String>>, Option<Vec<String>>);

/// Kind, queue, `created_at`, priority, `max_attempts`, `claims`, `until_start`, `unique_until`, `replaced_by`.
type Particulars = (String, String, Stored, i16, i16, bool, bool, Option<Stored>, Option<Uuid>);

/// Meta, errors, output, progress.
type Papers = (Json<Map<String, Value>>, Json<Vec<AttemptError>>, Option<Value>, Option<Value>);

/// How many jobs a runner can take from a queue now.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) queue: QueueName,
    pub(crate) free: usize,
}

impl Slots {
    fn free(&self) -> i32 {
        i32::try_from(self.free).unwrap_or(i32::MAX)
    }
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
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) jobs: Vec<JobRow>,
    pub(crate) unreadable: Vec<Unreadable>,
}

impl Taken {
    /// How many jobs it was.
    pub(crate) const fn count(&self) -> usize {
        self.jobs.len() + self.unreadable.len()
    }
}

/// What a fetch took, and what the look was.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) taken: Taken,
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
    pub(crate) run: u32,
    pub(crate) problem: String,
}

/// Takes up to the free slots of each queue, of the given kinds only, in the order of work. Queues
/// with places are looked at behind those only, which come with the highest priority first. Ends the [turn](super::begin_turn)
/// that it is in.
pub(crate) async fn fetch(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    slots: &[Slots],
    kinds: &[String],
    places: &[Place],
    is_in_turn: bool,
) -> Result<Fetched> {
    let queues: Vec<_> = slots.iter().map(|slot| slot.queue.as_str()).collect();
    let free: Vec<_> = slots.iter().map(Slots::free).collect();
    let statement = if places.is_empty() { &statements.fetch } else { &statements.fetch_onward };
    let mut query = query(statement).bind(&queues).bind(&free).bind(kinds).bind(worker);
    if !places.is_empty() {
        query = query
            .bind(places.iter().map(|place| place.queue.as_str()).collect::<Vec<_>>())
            .bind(places.iter().map(|place| place.priority).collect::<Vec<_>>())
            .bind(places.iter().map(|place| place.scheduled_at).collect::<Vec<_>>())
            .bind(places.iter().map(|place| place.id).collect::<Vec<_>>());
    }
    let rows = query.fetch_all(&mut *connection).await?;
    if is_in_turn {
        // Before they are read, since others wait.
        end_turn(connection).await?;
    }
    let (look, jobs) = rows.split_last().ok_or(sqlx::Error::RowNotFound)?;
    let (began_at, ended_at, held_back, limited): Look = look.try_get(LOOK)?;
    let usual = Usual::of(worker, slots.first(), kinds, ended_at.0);
    Ok(Fetched {
        taken: usual.taken(connection, statements, jobs).await?,
        began_at: began_at.0,
        took: Duration::try_from(ended_at.0 - began_at.0).unwrap_or_default(),
        held_back: queue_names(held_back),
        limited: queue_names(limited),
    })
}

/// Takes up to the free slots of one queue, from its head, in the order of work: a smaller statement than [`fetch`]'s,
/// which takes nothing where anything holds the queue back, and does not say what.
pub(crate) async fn fetch_queue(
    connection: &mut PgConnection,
    statements: &Statements,
    worker: Uuid,
    slots: &Slots,
    kinds: &[String],
) -> Result<Taken> {
    let query = query(&statements.fetch_queue).bind([slots.queue.as_str()]).bind([slots.free()]);
    let rows = query.bind(kinds).bind(worker).fetch_all(&mut *connection).await?;
    let Some(first) = rows.first() else { return Ok(Taken::default()) };
    let attempted_at = first.try_get::<Stored, _>(ATTEMPTED_AT)?.0;
    Usual::of(worker, Some(slots), kinds, attempted_at).taken(connection, statements, &rows).await
}

/// Looks once more at jobs that came back to their claim's states when they were fetched: whether they got their claim
/// was settled after their rows were read.
async fn see_claims(connection: &mut PgConnection, statements: &Statements, jobs: &mut [JobRow]) -> Result<()> {
    let came_back = |job: &JobRow| {
        let is_unique_now = job.unique_states.is_some_and(|states| states.contains(JobState::Running));
        !job.claims && is_unique_now && job.unique_key.is_some()
    };
    let ids: Vec<_> = jobs.iter().filter(|job| came_back(job)).map(|job| job.id.as_uuid()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let rows = query(&statements.claiming_jobs).bind(&ids).fetch_all(connection).await?;
    let claiming = rows.iter().map(|row| row.try_get("id")).collect::<sqlx::Result<HashSet<Uuid>>>()?;
    for job in jobs {
        job.claims |= claiming.contains(&job.id.as_uuid());
    }
    Ok(())
}

/// What a fetched job is like where its row does not say otherwise.
struct Usual {
    kind: Kind,
    queue: QueueName,
    attempted_at: OffsetDateTime,
    worker: Uuid,
}

impl Usual {
    /// As started.sql takes it from what it is asked with.
    fn of(worker: Uuid, slots: Option<&Slots>, kinds: &[String], attempted_at: OffsetDateTime) -> Self {
        Self {
            kind: Kind::from_stored(kinds.first().map_or("", String::as_str)),
            queue: slots.map_or_else(QueueName::default, |slots| slots.queue.clone()),
            attempted_at,
            worker,
        }
    }

    async fn taken(&self, connection: &mut PgConnection, statements: &Statements, rows: &[PgRow]) -> Result<Taken> {
        let mut taken = Taken { jobs: Vec::with_capacity(rows.len()), unreadable: Vec::new() };
        for row in rows {
            match self.job(row) {
                Ok(job) => taken.jobs.push(job),
                Err(error) => taken.unreadable.push(self.unreadable(row, &error)?),
            }
        }
        see_claims(connection, statements, &mut taken.jobs).await?;
        // UPDATE gives rows back in no promised order.
        taken.jobs.sort_by(|a, b| {
            (b.priority.cmp(&a.priority)).then_with(|| (a.scheduled_at, a.id).cmp(&(b.scheduled_at, b.id)))
        });
        Ok(taken)
    }

    fn job(&self, row: &PgRow) -> Result<JobRow> {
        let scheduled_at = row.try_get::<Stored, _>(SCHEDULED_AT)?.0;
        let unique_states = row.try_get::<Option<i16>, _>(UNIQUE_STATES)?.and_then(StateSet::from_bits);
        let mut job = JobRow {
            id: JobId::from(row.try_get::<Uuid, _>(ID)?),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            state: JobState::Running,
            priority: 0,
            attempt: count(row.try_get(ATTEMPT)?),
            max_attempts: 25,
            created_at: scheduled_at,
            scheduled_at,
            attempted_at: Some(self.attempted_at),
            finalized_at: None,
            args: row.try_get::<Box<RawValue>, _>(ARGS)?,
            meta: Map::new(),
            errors: Vec::new(),
            output: None,
            progress: None,
            unique_key: row.try_get(UNIQUE_KEY)?,
            unique_states,
            unique_until: None,
            claims: unique_states.is_some_and(|states| states.contains(JobState::Running)),
            until_start: false,
            replaced_by: None,
            worker: Some(self.worker),
            run: run_number(row.try_get(RUN)?),
        };
        if let Some(sent) = row.try_get::<Option<Particulars>, _>(PARTICULARS)? {
            let (kind, queue, created_at, priority, max_attempts, claims, until_start, unique_until, replaced_by) =
                sent;
            job.kind = Kind::from_stored(&kind);
            job.queue = QueueName::from_stored(&queue);
            job.created_at = created_at.0;
            job.priority = priority;
            job.max_attempts = count(max_attempts);
            job.claims = claims;
            job.until_start = until_start;
            job.unique_until = unique_until.map(|at| at.0);
            job.replaced_by = replaced_by.map(JobId::from);
        }
        if let Some((meta, errors, output, progress)) = row.try_get::<Option<Papers>, _>(PAPERS)? {
            job.meta = meta.0;
            job.errors = errors.0;
            job.output = output;
            job.progress = progress;
        }
        Ok(job)
    }

    fn unreadable(&self, row: &PgRow, error: &Error) -> Result<Unreadable> {
        let particulars = row.try_get::<Option<Particulars>, _>(PARTICULARS)?;
        let (kind, queue) = match particulars {
            Some((kind, queue, ..)) => (Kind::from_stored(&kind), QueueName::from_stored(&queue)),
            None => (self.kind.clone(), self.queue.clone()),
        };
        Ok(Unreadable {
            id: JobId::from(row.try_get::<Uuid, _>(ID)?),
            kind,
            queue,
            attempt: count(row.try_get(ATTEMPT)?),
            run: run_number(row.try_get(RUN)?),
            problem: format!("the job's row cannot be read: {error}"),
        })
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
    let query = query(&statements.give_back).bind(worker).bind(in_hand);
    let row = query.fetch_optional(connection).await?;
    Ok(row.map_or(Ok(0), |row| row.try_get("given_back"))?)
}

fn queue_names(names: Option<Vec<String>>) -> Vec<QueueName> {
    names.unwrap_or_default().iter().map(|name| QueueName::from_stored(name)).collect()
}
