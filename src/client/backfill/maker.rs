//! What a backfill gives to jobs: keys or groups.

use time::OffsetDateTime;

use super::groups::GroupMaker;
use super::judgement::Judgement;
use super::keys::KeyMaker;
use crate::store::SeenRow;
use crate::unique::StateSet;

/// What a backfill gives to jobs.
#[derive(Clone, Debug)]
pub(super) enum Maker {
    Keys(KeyMaker),
    Groups(GroupMaker),
}

impl Maker {
    /// The final states of jobs that are judged as well.
    pub(super) fn final_states(&self) -> StateSet {
        match self {
            Self::Keys(maker) => maker.final_states(),
            Self::Groups(_) => StateSet::default(),
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
