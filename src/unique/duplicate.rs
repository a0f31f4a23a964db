//! The outcome of an insert, and the claim that a duplicate met.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;
use uniqueue_policy::words;

use crate::period::format_duration;
use crate::unique::StateSet;
use crate::words::ident::JobId;
use crate::words::state::JobState;

words! {
    member "outcome";

    /// The outcome of an insert: the word that `insert_job` answers in SQL.
    pub enum InsertOutcome {
        /// The job was inserted.
        Inserted = "inserted",
        /// Nothing was inserted under `ignore`, and the holder stays as it is.
        Duplicate = "duplicate",
        /// Nothing was inserted under `update`, and the holder was changed in place.
        Updated = "updated",
        /// Nothing was inserted under `run_again`, and the holder starts after the insert's transaction has committed.
        Covered = "covered",
        /// Nothing was inserted, and the insert is an error that names the holder.
        Rejected = "rejected",
    }
}

/// The job that claims a key: its id, its age, and the event that ends its claim.
///
/// Its `Display` is a sentence for people; the fields are for programs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Duplicate {
    /// The key that both jobs carry.
    pub unique_key: String,
    /// The job that claims it.
    pub holder: JobId,
    /// The holder's state when it was met.
    pub holder_state: JobState,
    /// How long ago the holder was created, by the database's clock.
    #[serde(with = "crate::period::seconds")]
    pub holder_age: Duration,
    /// The states in which the holder claims the key.
    pub claims_in: StateSet,
    /// Whether the holder gives its claim up when a worker fetches it.
    pub until_start: bool,
    /// When the claim expires, in any state of the holder.
    #[serde(with = "crate::words::stored_time::option")]
    pub unique_until: Option<OffsetDateTime>,
}

impl Duplicate {
    /// When the holder's claim ends, as a phrase, in the words of the SQL function `_claim_end`:
    /// `when it is completed, cancelled or discarded; at the latest at 2026-02-12T15:15:00Z`.
    #[must_use]
    pub fn frees(&self) -> String {
        let mut ends_in = self.claims_in.complement();
        let mut text = "when ".to_owned();
        if self.until_start {
            // A job that runs was fetched before.
            ends_in = ends_in.without(JobState::Running);
            text.push_str("a worker fetches it or ");
        }
        text.push_str("it is ");
        text.push_str(&alternatives(ends_in).unwrap_or_else(|| "deleted".to_owned()));
        let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
        let until = self.unique_until.map(|until| until.to_offset(time::UtcOffset::UTC).format(format));
        if let Some(Ok(until)) = until {
            text.push_str("; at the latest at ");
            text.push_str(&until);
        }
        text
    }
}

/// The states as alternatives: `completed, cancelled or discarded`. `None` if there is none.
fn alternatives(states: StateSet) -> Option<String> {
    let mut names: Vec<_> = states.iter().map(JobState::as_str).collect();
    let last = names.pop()?;
    Some(if names.is_empty() { last.to_owned() } else { format!("{} or {last}", names.join(", ")) })
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "job {} ({}, for {}) claims the key {:?}; it is free {}",
            self.holder,
            self.holder_state,
            format_duration(self.holder_age),
            self.unique_key,
            self.frees()
        )
    }
}

/// A final job that [`Client::retry`](crate::Client::retry) left as it was, because another job holds its unique key and
/// its policy ([`OnReentry::Discard`](crate::OnReentry::Discard)) does not let it go on without the claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RefusedRetry {
    /// The job that was not retried.
    pub id: JobId,
    /// The job that holds its key. `None`: a transaction that is still open inserts it or changes it.
    pub holder: Option<JobId>,
}

impl RefusedRetry {
    pub(crate) const fn new(id: JobId, holder: Option<JobId>) -> Self {
        Self { id, holder }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::unique::UniqueScope;

    #[test]
    fn frees_says_what_ends_the_claim() {
        let mut duplicate = Duplicate {
            unique_key: "k".to_owned(),
            holder: JobId::from(uuid::Uuid::nil()),
            holder_state: JobState::Running,
            holder_age: Duration::from_secs(90),
            claims_in: UniqueScope::Active.into(),
            until_start: false,
            unique_until: None,
        };
        assert_eq!(duplicate.frees(), "when it is completed, cancelled or discarded");
        duplicate.claims_in = StateSet::ALL_BUT_COMPLETED;
        assert_eq!(duplicate.frees(), "when it is completed");
        duplicate.claims_in = UniqueScope::Queued.into();
        assert_eq!(duplicate.frees(), "when it is running, completed, cancelled or discarded");
        duplicate.unique_until = Some(datetime!(2026-02-13 01:15 +10));
        duplicate.until_start = true;
        assert_eq!(
            duplicate.frees(),
            "when a worker fetches it or it is completed, cancelled or discarded; at the latest at 2026-02-12T15:15:00Z"
        );
        duplicate.claims_in = UniqueScope::Exists.into();
        duplicate.until_start = false;
        duplicate.unique_until = None;
        assert_eq!(duplicate.frees(), "when it is deleted");
        assert_eq!(
            duplicate.to_string(),
            "job 00000000-0000-0000-0000-000000000000 (running, for 1m 30s) claims the key \"k\"; \
             it is free when it is deleted"
        );
    }
}
