//! Backfills: their options and their report. They give existing jobs the keys or the groups of a policy.

use serde::Serialize;

use uniqueue::{JobId, JobState};

/// The number of collisions, and of unfit jobs, in a report.
const EXAMPLES: usize = 100;

/// The fate of a job in a backfill of keys whose key another job claims.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum OnCollision {
    /// The job gets the key and goes on without the claim, as on re-entry with
    /// [`OnReentry::GoOn`](uniqueue::OnReentry::GoOn). The default, because every job still runs.
    #[default]
    GoOn,
    /// A waiting job is cancelled, because `on_conflict: ignore` would not have inserted it. Its errors
    /// and its `replaced_by` name the holder. A running or final job goes on without the claim.
    Cancel,
}

impl OnCollision {
    /// Whether a job in this state is cancelled after a collision.
    pub(super) fn cancels(self, state: JobState) -> bool {
        self == Self::Cancel && state != JobState::Running && !state.is_final()
    }
}

/// The result of a backfill, or of its dry run.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BackfillReport {
    /// The kind of the jobs.
    pub kind: String,
    /// Whether this is a dry run, which changes nothing.
    pub dry_run: bool,
    /// The jobs of the kind that were checked: unfinished jobs, and for keys also final jobs in a state in which the
    /// policy claims.
    pub jobs: u64,
    /// Jobs that had the key and the claim of the policy already, or the group, its limit and its order.
    pub unchanged: u64,
    /// Jobs that got their key and claim it.
    pub claimed: u64,
    /// Jobs that got their key and do not claim it now. The policy does not claim in their state, or
    /// their claim has ended: it expired, it lasted until the start, or they had given up an earlier
    /// one.
    pub unclaimed: u64,
    /// Jobs that have another key, or this key with another policy, and were left unchanged.
    pub other_key: u64,
    /// Jobs whose key another job claims.
    pub collided: u64,
    /// Of these, jobs that were cancelled.
    pub cancelled: u64,
    /// Waiting jobs that got their group.
    pub grouped: u64,
    /// Jobs that have another group, or this one with another limit or order, and were left unchanged.
    pub other_group: u64,
    /// Running jobs without the group, left unchanged. A running job counts against no limit of the group, and if it
    /// comes back to wait, it waits without the group: run the backfill again then.
    pub running: u64,
    /// Jobs for which the policy makes no key, left unchanged. Final jobs whose args cannot be read count
    /// only if the policy claims in their state.
    pub unfit: u64,
    /// Jobs that were locked by open transactions to the end, or whose keys were. Run it again.
    pub contested: u64,
    /// The first hundred collisions.
    pub collisions: Vec<Collision>,
    /// The first hundred jobs for which the policy makes no key.
    pub unfit_jobs: Vec<UnfitJob>,
}

impl BackfillReport {
    /// Whether every job has its key or its group, and every collision was resolved by a cancellation.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        let left = self.other_key + self.other_group + self.running + self.unfit + self.contested;
        left == 0 && self.collided == self.cancelled
    }

    pub(super) fn collide(&mut self, collision: Collision) {
        self.collided += 1;
        self.cancelled += u64::from(collision.cancelled);
        if self.collisions.len() < EXAMPLES {
            self.collisions.push(collision);
        }
    }

    pub(super) fn leave_unfit(&mut self, job: UnfitJob) {
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
    /// The job that does not claim its key.
    pub job: JobId,
    /// Its state at the time of the backfill.
    pub state: JobState,
    /// The job that claims the key.
    pub holder: JobId,
    /// The key.
    pub unique_key: String,
    /// Whether the job was cancelled.
    pub cancelled: bool,
}

/// A job for which the policy makes no key.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UnfitJob {
    /// The job.
    pub job: JobId,
    /// The error that an insert would return.
    pub problem: String,
}

/// The progress of a backfill.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BackfillProgress {
    /// How many jobs of all kinds it has passed.
    pub scanned: u64,
    /// How many jobs of the kind it has checked.
    pub jobs: u64,
    /// The fraction of the time between the first and the last job that it has passed, 0 to 1. It never
    /// decreases, and it is 1 while contested jobs are retried.
    pub part: f64,
}
