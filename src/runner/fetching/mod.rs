//! Fetching: which jobs a queue wants, when it asks for them, and what it leaves out after a failure.

pub(super) mod budget;
pub(super) mod cursor;
pub(super) mod failing_queues;
pub(super) mod failures;
pub(super) mod fetch;
pub(super) mod groups;
pub(super) mod job_limit;
pub(super) mod lost_fetches;
pub(super) mod polling;
pub(super) mod producer;
pub(super) mod slots;
