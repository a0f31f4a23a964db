//! The log of changes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use uniqueue::stored_time;
use uuid::Uuid;

use crate::{Admin, List};

/// A change that was made by hand, as [`Admin::change_log`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoggedChange {
    /// Its id. Ids follow time.
    pub id: Uuid,
    /// When it was made. A change by filter is made in batches: when the first was made.
    #[serde(with = "stored_time")]
    pub at: OffsetDateTime,
    /// When its last batch was made.
    #[serde(with = "stored_time")]
    pub last_at: OffsetDateTime,
    /// The name that the caller gave. `anonymous`: none.
    pub actor: String,
    /// `cancel`, `delete`, `release`, `reschedule`, `retry` or `set_priority` for jobs; `pause_queue`, `resume_queue`,
    /// `hold_queue`, `set_queue` or `remove_queue`, `hold_group` or `resume_group`; `pause_periodic`, `resume_periodic`, `remove_periodic`, `run_periodic` or
    /// `define_periodic`; `release_claim`; `audit_duplicates` or `stop_audit`.
    pub verb: String,
    /// The change: the first 100 ids of jobs and their number, or the filter, or a name and the new value.
    pub subject: Value,
    /// How many jobs were changed. `None` if the change is not one of jobs.
    pub jobs: Option<u64>,
}

impl<'a> Admin<'a> {
    /// Lists the changes that were made by hand, the latest first.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobFilter, JobState};
    /// # use uniqueue_admin::Admin;
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// client.retry(JobFilter::new().states(JobState::Discarded)).actor("anna").await?;
    /// for change in Admin::new(&client).change_log().by("anna").await? {
    ///     println!("{} {} {:?} jobs: {}", change.at, change.verb, change.jobs, change.subject);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A change is logged in its own transaction, so the log has it if, and only if, it was committed. A change of jobs, such as
    /// [`Client::cancel`](uniqueue::Client::cancel), and [`Client::release_claim`](uniqueue::Client::release_claim) are logged
    /// always, as one row a call, by default as `anonymous`. All other changes and inserts are logged if they have an actor. A
    /// change that changed no job is not logged, and neither is an insert that found only duplicates. Changes by SQL functions
    /// are not logged. Runners delete rows after 90 days.
    pub fn change_log(self) -> List<'a, LoggedChange> {
        List::new(self.client, include_str!("sql/change_log.sql"))
    }
}

impl List<'_, LoggedChange> {
    /// Only changes of this actor.
    pub fn by(self, actor: impl Into<String>) -> Self {
        self.with("actor", actor.into())
    }

    /// Goes on after this change, the last of the page before.
    pub fn after(self, id: Uuid) -> Self {
        self.with("after", id.to_string())
    }
}
