//! A row on its way into the job table.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::unique::{Claim, OnConflict, OnReentry, Update};
use crate::words::after::AfterCondition;
use crate::words::group::Group;
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::job::JobRow;
use crate::words::opts::Expiry;
use crate::words::state::JobState;

/// A job as it goes to the database: checked, layered, its key made.
#[derive(Clone, Debug)]
pub(crate) struct NewRow {
    pub(crate) id: JobId,
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    pub(crate) args: Box<RawValue>,
    pub(crate) meta: Map<String, Value>,
    pub(crate) priority: i16,
    pub(crate) max_attempts: u16,
    pub(crate) scheduled_at: Option<OffsetDateTime>,
    pub(crate) delay: Option<Duration>,
    pub(crate) is_pending: bool,
    pub(crate) claim: Option<Claim>,
    pub(crate) group: Option<Group>,
    pub(crate) expiry: Option<Expiry>,
}

/// The parent of a job of the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    /// The place of the job that waits, counted from 0.
    pub(crate) child: usize,
    pub(crate) parent: EdgeParent,
    pub(crate) condition: AfterCondition,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum EdgeParent {
    /// An earlier job of the batch, by its place.
    OfBatch(usize),
    Stored(JobId),
}

impl NewRow {
    /// The unique key.
    pub(crate) fn key(&self) -> Option<&str> {
        self.claim.as_ref().map(|claim| claim.key.as_str())
    }

    /// Whether it does more with a duplicate than a look at its key can tell.
    pub(crate) fn needs_order(&self) -> bool {
        self.on_conflict() != OnConflict::Ignore
    }

    /// Whether it claims its key from the start, whichever state the database's clock gives it.
    pub(crate) fn surely_claims(&self) -> bool {
        let first: &[JobState] =
            if self.is_pending { &[JobState::Pending] } else { &[JobState::Available, JobState::Scheduled] };
        self.claim.as_ref().is_some_and(|claim| first.iter().all(|state| claim.terms.states.contains(*state)))
    }

    /// The answer to a duplicate.
    pub(super) fn on_conflict(&self) -> OnConflict {
        self.claim.as_ref().map_or(OnConflict::Ignore, |claim| claim.terms.on_conflict)
    }

    /// What an update changes, as `update_terms` in SQL.
    pub(super) fn changes(&self) -> Option<Value> {
        let update = self.claim.as_ref()?.terms.changes()?;
        let max_delay = update.max_delay.map(|length| format!("{} microseconds", length.as_micros()));
        let max_items = update.max_items.unwrap_or(Update::DEFAULT_MAX_ITEMS);
        Some(json!({ "args": update.args, "max_delay": max_delay, "max_items": max_items }))
    }

    /// The job while a worker runs it, which began at this time.
    #[cfg(feature = "testing")]
    pub(crate) fn into_running(self, at: OffsetDateTime) -> JobRow {
        JobRow { attempted_at: Some(at), run: 1, ..self.into_job(JobState::Running, at, at, None) }
    }

    /// The job that it is now, given the values that the database chose.
    pub(super) fn into_job(
        self,
        state: JobState,
        created_at: OffsetDateTime,
        scheduled_at: OffsetDateTime,
        unique_until: Option<OffsetDateTime>,
    ) -> JobRow {
        let (unique_key, terms) = self.claim.map(|Claim { key, terms }| (key, terms)).unzip();
        let states = terms.as_ref().map(|terms| terms.states);
        let due = created_at.max(scheduled_at);
        let (expires_at, expires_in) = Expiry::parts(self.expiry);
        JobRow {
            id: self.id,
            kind: self.kind,
            queue: self.queue,
            state,
            priority: self.priority,
            attempt: 0,
            run: 0,
            crashes: 0,
            max_attempts: self.max_attempts,
            created_at,
            scheduled_at,
            attempted_at: None,
            finalized_at: None,
            args: self.args,
            meta: self.meta,
            errors: Vec::new(),
            output: None,
            progress: None,
            unique_states: states,
            until_start: terms.as_ref().is_some_and(|terms| terms.until_start),
            discard_on_reentry: terms.is_some_and(|terms| terms.on_reentry == OnReentry::Discard),
            unique_key,
            unique_until,
            claims: states.is_some_and(|states| states.contains(state)),
            replaced_by: None,
            worker: None,
            group_limit: self.group.as_ref().and_then(|group| group.limit),
            in_order: self.group.as_ref().is_some_and(|group| group.in_order),
            group_key: self.group.map(|group| group.key),
            updates: 0,
            updated_at: None,
            updated_by: None,
            expires_at: expires_at.map(to_microsecond).or_else(|| {
                expires_in.filter(|_| state != JobState::Pending).map(|length| to_microsecond(due + length))
            }),
        }
    }
}

/// A time as the table stores it.
fn to_microsecond(at: OffsetDateTime) -> OffsetDateTime {
    at - Duration::from_nanos(u64::from(at.nanosecond() % 1_000))
}

/// A count as the table stores it. The options keep it in range.
pub(super) fn stored_count(count: u16) -> i16 {
    i16::try_from(count).unwrap_or(i16::MAX)
}
