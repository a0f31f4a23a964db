//! What a backfill gives to jobs, and what it decides about one.

use serde_json::Value;
use time::OffsetDateTime;
use uniqueue::{Client, Job, JobId, JobState, Result, StateSet, policies_of_kind};

use super::groups::GroupMaker;
use super::keys::KeyMaker;
use super::rows::SeenRow;

/// What a backfill gives to jobs.
#[derive(Clone, Debug)]
pub(super) enum Maker {
    Keys(KeyMaker),
    Groups(GroupMaker),
}

impl Maker {
    /// The keys of a kind.
    pub(super) fn keys<J: Job>(client: &Client) -> Result<Self> {
        KeyMaker::of_kind::<J>(policies_of_kind::<J>(client).0).map(Self::Keys)
    }

    /// The groups of a kind.
    pub(super) fn groups<J: Job>(client: &Client) -> Self {
        let (_, policy, limit, in_order) = policies_of_kind::<J>(client);
        Self::Groups(GroupMaker { policy, limit, in_order })
    }

    /// The final states of jobs that are judged as well.
    pub(super) fn final_states(&self) -> StateSet {
        match self {
            Self::Keys(maker) => maker.final_states(),
            Self::Groups(_) => StateSet::EMPTY,
        }
    }

    /// Decides what to do with a job, by the database's time.
    pub(super) fn judge(&self, kind: &str, job: &SeenRow, overwrites: bool, now: OffsetDateTime) -> Judgement {
        match self {
            Self::Keys(maker) => maker.judge(kind, job, overwrites, now),
            Self::Groups(maker) => maker.judge(kind, job, overwrites),
        }
    }
}

/// The decision about a job.
pub(super) enum Judgement {
    /// It is final, and its state claims nothing. It is not counted.
    Passed,
    /// It gets nothing.
    Left,
    /// It has the key and its terms, or the group with its limit and order.
    Unchanged,
    /// It has another key or group, or other terms.
    Other,
    /// It runs, so that its group stays.
    Running,
    /// The policy makes no key from it.
    Unfit(String),
    Given(Given),
}

/// A job with its new key or group.
pub(super) struct Given {
    pub(super) id: JobId,
    pub(super) state: JobState,
    pub(super) key: String,
    /// Whether it would claim the key in its state, at this time.
    pub(super) would_claim: bool,
    /// The new values, and those with which it was seen, for the statement.
    pub(super) row: Value,
}
