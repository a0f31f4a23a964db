//! The answer of a fetch: a row for each job, and one without an id that has the facts.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::period::seconds;
use crate::store::row::{Started, bytes_at, count, run_number, started_row};
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::job::JobRow;
use crate::words::stored_time;

/// The jobs that a fetch took, and the course of its scan.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// The jobs, in the order of work. All of them are running since the fetch.
    pub(crate) jobs: Vec<JobRow>,
    /// Jobs that are running as well, but whose rows cannot be read.
    pub(crate) unreadable: Vec<Unreadable>,
    /// The bytes of their values as they came.
    pub(crate) bytes: usize,
    /// When the scan began, by the database's clock.
    pub(crate) began_at: OffsetDateTime,
    /// How long the scan took, without the visits of groups.
    pub(crate) took: Duration,
    /// The queues with a guard. Of two statements that were sent at once, those of both.
    pub(crate) queues: Vec<QueueFacts>,
    /// What the worker has to mind: suspects, and jobs that are set aside. `None`: nothing.
    pub(crate) plan: Option<FetchPlan>,
    /// The queues with jobs that have one attempt and were not taken, since no idle slot was left.
    pub(crate) left_out: Vec<QueueName>,
    /// How long until a queue or a group that is held, or has no token of its rate, may start a job: the first of them.
    pub(crate) next_in: Option<Duration>,
}

impl Fetched {
    /// How many jobs the fetch took.
    pub(crate) const fn count(&self) -> usize {
        self.jobs.len() + self.unreadable.len()
    }

    /// Whether the fetch returned facts of this queue that fulfil the condition.
    pub(crate) fn any_facts(&self, queue: &QueueName, condition: fn(&QueueFacts) -> bool) -> bool {
        self.queues.iter().any(|facts| facts.name == *queue && condition(facts))
    }

    /// The result of the visit of a queue's groups. None: they were not visited.
    pub(crate) fn visit_of(&self, queue: &QueueName) -> Option<&Visit> {
        self.queues.iter().filter(|facts| facts.name == *queue).find_map(|facts| facts.visit.as_ref())
    }

    /// The answers of two statements that were sent at once, as one.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.jobs.extend(other.jobs);
        self.jobs.sort_by(order_of_work);
        self.unreadable.extend(other.unreadable);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.began_at = self.began_at.min(other.began_at);
        self.took = self.took.max(other.took);
        self.queues.extend(other.queues);
        self.plan = self.plan.or(other.plan);
        self.left_out.extend(other.left_out);
        self.next_in = [self.next_in, other.next_in].into_iter().flatten().min();
        self
    }
}

/// What a worker that has suspects, or jobs that are set aside, learns from a fetch.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FetchPlan {
    /// Whether the next fetch is to be one statement, since it depends on this.
    pub(crate) is_careful: bool,
    /// Whether the fetch took less than was wanted.
    pub(crate) is_partial: bool,
    /// Whether nothing starts, since a suspect runs alone or is about to.
    pub(crate) is_draining: bool,
    pub(crate) may_fetch_ahead: bool,
    /// What the next fetch needs to know, in the words of the schema.
    pub(crate) memory: Value,
    /// The jobs that were set aside and are discarded now, each with the reason.
    pub(crate) discarded: BTreeMap<Uuid, String>,
    /// The seconds until the draining may end.
    next_in: Option<f64>,
}

/// The facts that a fetch returns of a queue with a guard.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct QueueFacts {
    name: QueueName,
    /// Whether the queue gave fewer jobs than it has, or none: it is paused, full or held, or has no token of its rate.
    pub(crate) is_held_back: bool,
    /// Whether it has a limit or a rate over all runners.
    pub(crate) is_limited: bool,
    /// Whether it has available jobs of groups.
    pub(crate) has_groups: bool,
    /// `None`: its groups were not visited.
    pub(crate) visit: Option<Visit>,
    next_in: Option<f64>,
}

/// The result of a visit of the groups of a queue.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Visit {
    /// The next fetch goes on behind this group. Where nothing could start, it is the group that this visit began behind,
    /// or another one where the visit ended before it came round to that.
    pub(crate) reached: String,
    /// Whether any of their jobs could start.
    pub(crate) has_startable: bool,
    #[serde(with = "seconds")]
    pub(crate) took: Duration,
}

/// A job whose row cannot be read, such as one whose `meta` was changed by hand to something that this version does not
/// know. It must not keep the jobs that were fetched with it from their workers.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) id: JobId,
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    pub(crate) attempt: u16,
    pub(crate) run: u32,
    pub(crate) problem: String,
}

/// The facts that a fetch returns besides its jobs.
#[derive(Deserialize)]
struct Facts {
    #[serde(with = "stored_time")]
    began_at: OffsetDateTime,
    #[serde(with = "stored_time")]
    started_at: OffsetDateTime,
    left_out: Vec<QueueName>,
    queues: Vec<QueueFacts>,
    plan: Option<FetchPlan>,
    /// Jobs that started and were discarded, since another job holds their key.
    discarded: Option<HashSet<Uuid>>,
}

/// Reads the answer to a fetch of this worker.
pub(in crate::store) fn read(rows: &[PgRow], worker: Uuid) -> Result<Fetched> {
    let facts = rows.iter().find_map(|row| row.try_get::<Option<Json<Facts>>, _>(0).transpose());
    let Json(Facts { began_at, started_at, left_out, queues, plan, discarded }) =
        facts.ok_or(sqlx::Error::RowNotFound)??;
    let discarded = discarded.unwrap_or_default();
    let (mut jobs, mut unreadable, mut bytes) = (Vec::with_capacity(rows.len()), Vec::new(), 0);
    for row in rows {
        let Some(id) = row.try_get::<Option<Uuid>, _>(1)? else { continue };
        if discarded.contains(&id) {
            continue;
        }
        // Args, meta, errors, output and progress.
        bytes += bytes_at(row, 9..=13);
        match started_row(row, 2, &Started { id: JobId::from(id), worker, at: started_at }) {
            Ok(job) => jobs.push(job),
            Err(error) => unreadable.push(unreadable_job(row, id, &error)?),
        }
    }
    let visits_took: Duration = queues.iter().filter_map(|queue| Some(queue.visit.as_ref()?.took)).sum();
    let took = Duration::try_from(started_at - began_at).unwrap_or_default().saturating_sub(visits_took);
    let next_in = queues.iter().filter_map(|queue| queue.next_in).chain(plan.as_ref().and_then(|plan| plan.next_in));
    // A clock that is set back makes one of 0.
    let next_in = next_in.filter_map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok()).min();
    Ok(Fetched { jobs, unreadable, bytes, began_at, took, queues, plan, left_out, next_in })
}

fn unreadable_job(row: &PgRow, id: Uuid, error: &Error) -> Result<Unreadable> {
    Ok(Unreadable {
        id: JobId::from(id),
        kind: Kind::from_stored(row.try_get(2)?),
        queue: QueueName::from_stored(row.try_get(3)?),
        attempt: count(row.try_get(5)?),
        run: run_number(row.try_get(20)?),
        problem: format!("the job's row cannot be read: {error}"),
    })
}

/// The order in which jobs start: the highest priority first, then by time.
pub(in crate::store) fn order_of_work(a: &JobRow, b: &JobRow) -> Ordering {
    (b.priority.cmp(&a.priority)).then_with(|| (a.scheduled_at, a.id).cmp(&(b.scheduled_at, b.id)))
}
