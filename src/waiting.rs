//! Inserts that wait, as an operator sees them.

use std::time::Duration;

use serde::Serialize;

use crate::ident::JobId;

/// An insert that waits for another transaction; as
/// [`Client::waiting_inserts`](crate::Client::waiting_inserts) lists it. What belongs to sessions of other
/// roles is only told to those who may see it (`pg_read_all_stats`).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WaitingInsert {
    /// The process of the session that waits.
    pub pid: i32,
    /// What its client calls itself.
    pub application: Option<String>,
    /// How long it has waited.
    pub waiting_for: Option<Duration>,
    /// `a key`, which another transaction has inserted and not committed; or `a job`, the holder, which
    /// another transaction changes.
    pub waits_for: String,
    /// The key of that job. `None` where it waits for a key: which one cannot be seen from outside.
    pub unique_key: Option<String>,
    /// That job.
    pub holder: Option<JobId>,
    /// The process of the session that has what it waits for. `None`: a prepared transaction has.
    pub blocker_pid: Option<i32>,
    /// What that one's client calls itself.
    pub blocker_application: Option<String>,
    /// Its state, such as `idle in transaction`.
    pub blocker_state: Option<String>,
    /// The statement that it runs, or ran last.
    pub blocker_query: Option<String>,
    /// How long its transaction has been open.
    pub blocker_open_for: Option<Duration>,
}
