//! Why an insert was a duplicate, and until when.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::ident::JobId;
use crate::state::JobState;
use crate::unique::StateSet;

/// The job that claims a key: its id, its age, and the event that ends its claim.
///
/// Its `Display` is a sentence for people; the fields are for programs.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Duplicate {
    /// The key that both jobs carry.
    pub unique_key: String,
    /// The job that claims it.
    pub holder: JobId,
    /// The holder's state when it was met.
    pub holder_state: JobState,
    /// How long ago the holder was created, by the database's clock.
    pub holder_age: Duration,
    /// The states in which the holder claims the key.
    pub claims_in: StateSet,
    /// Whether the holder gives its claim up when a worker fetches it.
    pub until_start: bool,
    /// When the claim expires, in any state of the holder.
    #[serde(with = "time::serde::rfc3339::option")]
    pub unique_until: Option<OffsetDateTime>,
}

impl Duplicate {
    /// When the holder's claim ends, as a phrase, in the words of the SQL function `claim_end`:
    /// `when it leaves available, running; at the latest at 2026-02-12T15:15:00Z`.
    #[must_use]
    pub fn frees(&self) -> String {
        let has_every_state = self.claims_in == StateSet::of(&JobState::ALL);
        let mut text = match (has_every_state, self.until_start) {
            (true, true) => "when a worker fetches it or it is deleted".to_owned(),
            (true, false) => "when it is deleted".to_owned(),
            (false, true) => format!("when a worker fetches it or it leaves {}", self.claims_in),
            (false, false) => format!("when it leaves {}", self.claims_in),
        };
        let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
        let until = self.unique_until.map(|until| until.to_offset(time::UtcOffset::UTC).format(format));
        if let Some(Ok(until)) = until {
            text.push_str("; at the latest at ");
            text.push_str(&until);
        }
        text
    }
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "job {} ({}, for {:.1?}) claims the key {:?}; it is free {}",
            self.holder,
            self.holder_state,
            self.holder_age,
            self.unique_key,
            self.frees()
        )
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
            claims_in: StateSet::of(&[JobState::Available, JobState::Running]),
            until_start: false,
            unique_until: None,
        };
        assert_eq!(duplicate.frees(), "when it leaves available, running");
        duplicate.unique_until = Some(datetime!(2026-02-13 01:15 +10));
        duplicate.until_start = true;
        assert_eq!(
            duplicate.frees(),
            "when a worker fetches it or it leaves available, running; at the latest at 2026-02-12T15:15:00Z"
        );
        duplicate.claims_in = UniqueScope::Exists.into();
        duplicate.until_start = false;
        duplicate.unique_until = None;
        assert_eq!(duplicate.frees(), "when it is deleted");
        assert_eq!(
            duplicate.to_string(),
            "job 00000000-0000-0000-0000-000000000000 (running, for 90.0s) claims the key \"k\"; \
             it is free when it is deleted"
        );
    }
}
