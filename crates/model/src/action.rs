//! What can happen.

use crate::setting::{Answer, Outcome};

/// What can happen. Jobs, transactions and runners are numbered from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    /// A caller's transaction changes data of the caller's and inserts a job with a key.
    Insert {
        /// The transaction, which begins here.
        transaction: u8,
        /// The job's key.
        key: u8,
        /// What a duplicate does.
        answer: Answer,
    },
    /// A transaction commits.
    Commit(u8),
    /// A transaction rolls back.
    RollBack(u8),
    /// A scheduled or retryable job is due.
    Promote(u8),
    /// A runner fetches the next job, and starts it.
    Fetch(u8),
    /// A runner records the result of a run that it has in hand: the run's place there.
    Finish(u8, u8, Outcome),
    /// A runner's lease runs out. It does not know, and goes on.
    LoseLease(u8),
    /// A job of a runner without a lease is rescued.
    Rescue(u8),
    /// The claim of a job expires.
    Expire(u8),
    /// An operator cancels a job.
    Cancel(u8),
    /// An operator makes a final job run again.
    Retry(u8),
    /// An operator releases a job's claim.
    Release(u8),
}
