//! Fetching the next jobs.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;
use sqlx::Row;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::fetch_answer::{self, Fetched, order_of_work};
use crate::error::Result;
use crate::store::{Store, query};
use crate::words::ident::QueueName;
use crate::words::job::JobRow;
use crate::words::state::JobState;

/// Which groups of a queue a fetch visits.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GroupVisit {
    /// It begins with the first key after this.
    #[serde(rename = "after_group")]
    pub(crate) after: String,
    /// How many groups it visits at most, at each priority.
    #[serde(rename = "visits")]
    pub(crate) most: usize,
    /// Groups to visit in any case, since a place in them was freed.
    pub(crate) freed: Vec<String>,
    /// Whether the last fetch saw available jobs of groups.
    #[serde(skip)]
    pub(crate) has_groups: bool,
}

impl GroupVisit {
    /// From the first group on.
    pub(crate) const fn from_start(most: usize) -> Self {
        Self { after: String::new(), most, freed: Vec::new(), has_groups: false }
    }

    /// No group.
    pub(crate) const fn none() -> Self {
        Self { after: String::new(), most: 0, freed: Vec::new(), has_groups: false }
    }

    /// Whether it visits any group.
    pub(crate) const fn is_any(&self) -> bool {
        self.most > 0 || !self.freed.is_empty()
    }
}

/// How many jobs a runner can take from a queue now. In JSON it is an item in the argument of the SQL function `_fetch_jobs`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct QueueDemand {
    #[serde(rename = "name")]
    pub(crate) queue: QueueName,
    pub(crate) free: usize,
    /// How many of them are idle, so that their jobs start at once. Jobs for the others are fetched ahead.
    pub(crate) idle: usize,
    #[serde(flatten)]
    pub(crate) groups: GroupVisit,
}

/// Which suspects a fetch takes: jobs whose runner died while it had them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SuspectLimit<'a> {
    /// As many as the function `_plan_fetch` of the schema says, of what the runner remembers: what the last
    /// [`FetchPlan`](crate::store::FetchPlan) or [`set_aside`](super::set_aside) returned.
    Planned(&'a Value),
    /// Jobs that crashed once, up to this number, and then other jobs.
    AtMost(i32),
    /// One that crashed more than once, and no other job.
    #[cfg(feature = "testing")]
    OneAlone,
}

/// A position in a queue and a priority, behind which a fetch begins. A cursor has several of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Position {
    pub(crate) queue: QueueName,
    pub(crate) priority: i16,
    pub(crate) scheduled_at: OffsetDateTime,
    pub(crate) id: Uuid,
}

/// The jobs that a fetch is to take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand<'a> {
    pub(crate) slots: &'a [QueueDemand],
    pub(crate) suspects: SuspectLimit<'a>,
    /// `None`: any.
    pub(crate) kinds: Option<&'a [String]>,
    /// Where the scans begin.
    pub(crate) cursor: &'a [Position],
}

impl Store<'_> {
    /// Takes up to the free slots of each queue, of the given kinds only, in the order of work, and starts a run of each job.
    /// In queues with positions in the cursor the scan begins behind these, which come with the highest priority first.
    pub(crate) async fn fetch(
        self,
        worker: Uuid,
        Demand { slots, suspects, kinds, cursor }: Demand<'_>,
    ) -> Result<Fetched> {
        let (suspects, is_alone, memory) = match suspects {
            SuspectLimit::Planned(memory) => (None, false, Some(memory)),
            SuspectLimit::AtMost(count) => (Some(count), false, None),
            #[cfg(feature = "testing")]
            SuspectLimit::OneAlone => (Some(1), true, None),
        };
        let rows = query(&self.statements.fetch)
            .bind(worker)
            .bind(Json(slots))
            .bind(kinds)
            .bind(suspects)
            .bind(is_alone)
            .bind(cursor.iter().map(|position| position.queue.as_str()).collect::<Vec<_>>())
            .bind(cursor.iter().map(|position| position.priority).collect::<Vec<_>>())
            .bind(cursor.iter().map(|position| position.scheduled_at).collect::<Vec<_>>())
            .bind(cursor.iter().map(|position| position.id).collect::<Vec<_>>())
            .bind(memory)
            .fetch_all(&mut *self.connection)
            .await?;
        let mut fetched = fetch_answer::read(&rows, worker)?;
        self.read_claims(&mut fetched.jobs).await?;
        // UPDATE returns rows in no promised order.
        fetched.jobs.sort_by(order_of_work);
        Ok(fetched)
    }

    /// Reads the claims of jobs that came back to their unique states when they were fetched: whether they got their claim
    /// was settled after their rows were read.
    async fn read_claims(self, jobs: &mut [JobRow]) -> Result<()> {
        let came_back = |job: &JobRow| {
            let is_unique_now = job.unique_states.is_some_and(|states| states.contains(JobState::Running));
            !job.claims && is_unique_now && job.unique_key.is_some()
        };
        let ids: Vec<_> = jobs.iter().filter(|job| came_back(job)).map(|job| job.id.as_uuid()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let rows = query(&self.statements.claiming_jobs).bind(&ids).fetch_all(self.connection).await?;
        let claiming = rows.iter().map(|row| row.try_get("id")).collect::<sqlx::Result<HashSet<Uuid>>>()?;
        for job in jobs {
            job.claims |= claiming.contains(&job.id.as_uuid());
        }
        Ok(())
    }

    /// Gives back the jobs that run under this lease according to the database and are not in hand. Answers how many there were.
    pub(crate) async fn give_back(self, worker: Uuid, in_hand: &[Uuid]) -> Result<i64> {
        let query = query(&self.statements.give_back).bind(worker).bind(in_hand);
        let row = query.fetch_optional(self.connection).await?;
        Ok(row.map_or(Ok(0), |row| row.try_get("given_back"))?)
    }
}
