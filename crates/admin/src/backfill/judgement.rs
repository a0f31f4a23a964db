//! What a backfill decides about a job.

use serde_json::Value;
use uniqueue::{JobId, JobState};

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
