//! The log of changes, for operators.

use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

/// A change that was made by hand, as [`Client::change_log`](crate::Client::change_log) lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoggedChange {
    /// Its id. Ids follow time.
    pub id: Uuid,
    /// When it was made. A change by filter is made in batches: when the first was made.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// When its last batch was made.
    #[serde(with = "time::serde::rfc3339")]
    pub last_at: OffsetDateTime,
    /// The name that the caller gave. `anonymous`: none.
    pub actor: String,
    /// `cancel`, `delete`, `release`, `reschedule`, `retry` or `set_priority` for jobs; `pause_queue`, `resume_queue`,
    /// `limit_queue`, `retain_queue` or `remove_queue`; `pause_periodic`, `resume_periodic`, `remove_periodic`, `run_periodic` or
    /// `define_periodic`; `release_claim`; `audit_duplicates` or `stop_audit`.
    pub verb: String,
    /// The change: the first 100 ids of jobs and their number, or the filter, or a name and the new value.
    pub subject: Value,
    /// How many jobs were changed. `None` if the change is not one of jobs.
    pub jobs: Option<u64>,
}
