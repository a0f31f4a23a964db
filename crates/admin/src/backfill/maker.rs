//! What a backfill gives to jobs.

use time::OffsetDateTime;
use uniqueue::{Client, Job, Result, StateSet, policies_of_kind};

use super::groups::GroupMaker;
use super::judgement::Judgement;
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
