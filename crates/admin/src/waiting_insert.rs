//! Inserts that wait for other transactions.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uniqueue::JobId;

use crate::{Admin, List};

/// An insert that waits for another transaction, as
/// [`Admin::waiting_inserts`] lists it. Fields about sessions of other
/// roles are only visible with `pg_read_all_stats`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WaitingInsert {
    /// The process id of the waiting session.
    pub pid: i32,
    /// The `application_name` of the waiting session.
    pub application: Option<String>,
    /// How long it has waited.
    #[serde(with = "uniqueue::period::seconds::option")]
    pub waiting_for: Option<Duration>,
    /// `a key`, which another transaction has inserted but not committed, or `a job`, the holder, which
    /// another transaction changes.
    pub waits_for: String,
    /// The key of the holder. `None` if it waits for a key, which other sessions cannot see.
    pub unique_key: Option<String>,
    /// The holder, if it waits for a job.
    pub holder: Option<JobId>,
    /// The process id of the blocking session. `None` if a prepared transaction blocks.
    pub blocker_pid: Option<i32>,
    /// The `application_name` of the blocking session.
    pub blocker_application: Option<String>,
    /// The state of the blocking session, such as `idle in transaction`.
    pub blocker_state: Option<String>,
    /// The current or last statement of the blocking session.
    pub blocker_query: Option<String>,
    /// How long the blocking transaction has been open.
    #[serde(with = "uniqueue::period::seconds::option")]
    pub blocker_open_for: Option<Duration>,
}

impl<'a> Admin<'a> {
    /// Lists the inserts that wait for other transactions, with these transactions: the longest wait first, a thousand by
    /// default. As the view `waiting_insert`.
    pub fn waiting_inserts(self) -> List<'a, WaitingInsert> {
        List::new(self.client, include_str!("sql/waiting_inserts.sql")).limit(1_000)
    }
}
