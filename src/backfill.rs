//! Options and report of a backfill, which gives queued jobs the keys of a policy.

use serde::Serialize;

use crate::ident::{JobId, Kind};
use crate::state::JobState;

/// The most collisions, and the most unfit jobs, that a report lists.
pub(crate) const EXAMPLES: usize = 100;

/// What becomes of a job whose key another job claims, when a backfill comes to it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum OnCollision {
    /// It gets the key and goes on without the claim, as a job that comes back does
    /// ([`OnReentry::GoOn`](crate::OnReentry::GoOn)). The default: every job still runs.
    #[default]
    GoOn,
    /// It is cancelled, as `on_conflict: ignore` would have kept it out, if it waits; its errors name
    /// the holder, and so does its `replaced_by`. A job that runs or is final goes on without the claim.
    Cancel,
}

/// What a backfill did. For a dry run: what it would do.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct BackfillReport {
    /// The kind of the jobs.
    pub kind: Kind,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Jobs of the kind that were examined: those that are not final, and final ones in a state in
    /// which the policy claims.
    pub jobs: u64,
    /// Of these, jobs that had the key and terms of the policy already.
    pub unchanged: u64,
    /// Jobs that got their key, and claim it.
    pub claimed: u64,
    /// Jobs that got their key and do not claim it now: their state claims nothing, or their claim is
    /// over (its time, or `until start` and they were started), or they had given up the one they had.
    pub unclaimed: u64,
    /// Jobs that carry another key, or this one on other terms, and were left as they are.
    pub other_key: u64,
    /// Jobs whose key another job claims.
    pub collided: u64,
    /// Of these, jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs from which the policy makes no key, left as they are. Final jobs whose args cannot be read count only
    /// where the policy claims in their state.
    pub unfit: u64,
    /// Jobs that open transactions kept locked until the end, or whose keys they contested. Run the backfill again.
    pub contested: u64,
    /// The first hundred collisions.
    pub collisions: Vec<Collision>,
    /// The first hundred jobs from which the policy makes no key.
    pub unfit_jobs: Vec<UnfitJob>,
}

impl BackfillReport {
    pub(crate) const fn new(kind: Kind, dry_run: bool) -> Self {
        Self {
            kind,
            dry_run,
            jobs: 0,
            unchanged: 0,
            claimed: 0,
            unclaimed: 0,
            other_key: 0,
            collided: 0,
            cancelled: 0,
            unfit: 0,
            contested: 0,
            collisions: Vec::new(),
            unfit_jobs: Vec::new(),
        }
    }

    /// Whether the backfill is complete: every job has its key, and every collision was settled by a
    /// cancellation.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.other_key == 0 && self.collided == self.cancelled && self.unfit == 0 && self.contested == 0
    }

    pub(crate) fn collide(&mut self, collision: Collision) {
        self.collided += 1;
        self.cancelled += u64::from(collision.cancelled);
        if self.collisions.len() < EXAMPLES {
            self.collisions.push(collision);
        }
    }

    pub(crate) fn leave_unfit(&mut self, job: UnfitJob) {
        self.unfit += 1;
        if self.unfit_jobs.len() < EXAMPLES {
            self.unfit_jobs.push(job);
        }
    }
}

/// A job whose key another job claims.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Collision {
    /// The job that came later to the key.
    pub job: JobId,
    /// Its state then.
    pub state: JobState,
    /// The job that claims the key.
    pub holder: JobId,
    /// The key.
    pub unique_key: String,
    /// Whether the job was cancelled.
    pub cancelled: bool,
}

/// A job from which the policy makes no key.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UnfitJob {
    /// The job.
    pub job: JobId,
    /// The problem, as an insert would report it.
    pub problem: String,
}

/// How far a backfill is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BackfillProgress {
    /// How many jobs of all kinds it has read.
    pub scanned: u64,
    /// How many jobs of the kind it has examined.
    pub jobs: u64,
    /// How much of the time between the first job and the last it has passed, 0 to 1. It never decreases, and is 1
    /// while contested jobs are tried again.
    pub part: f64,
}
