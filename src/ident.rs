//! Names, parsed once at the edge: [`Kind`], [`QueueName`], [`PeriodicName`], [`SchemaName`], and [`JobId`].

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize, Serializer};
use time::OffsetDateTime;
use uuid::{ContextV7, Timestamp, Uuid};

use crate::error::{Error, Result};

/// The longest kind or queue name, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 128;

/// The longest schema name, in bytes: PostgreSQL's 63, less the suffix of a NOTIFY channel.
pub const MAX_SCHEMA_BYTES: usize = 50;

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        ///
        /// 1 to 128 bytes of text without control characters.
        #[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $type(Arc<str>);

        impl $type {
            /// A name read back from the database, which checked it when it was stored.
            pub(crate) fn from_stored(stored: &str) -> Self {
                Self(stored.into())
            }

            #[doc = concat!("Checks a ", $what, " name.")]
            ///
            /// # Errors
            ///
            /// [`Error::InvalidName`] when it is empty, longer than
            /// [`MAX_NAME_BYTES`] or holds a control character.
            pub fn new(given: impl Into<String>) -> Result<Self> {
                Self::parse(&given.into())
            }

            pub(crate) fn parse(given: &str) -> Result<Self> {
                match name_problem(given) {
                    None => Ok(Self(given.into())),
                    Some(problem) => Err(Error::InvalidName { what: $what, problem, given: given.to_owned() }),
                }
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(given: &str) -> Result<Self> {
                Self::parse(given)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// A job's type name, such as `email.send`.
    Kind,
    "kind"
);

name!(
    /// The name of a queue. The default queue is [`QueueName::DEFAULT`].
    QueueName,
    "queue"
);

name!(
    /// The name of a periodic job.
    PeriodicName,
    "periodic job"
);

impl QueueName {
    /// The queue of jobs without a queue of their own.
    pub const DEFAULT: &'static str = "default";
}

impl Default for QueueName {
    fn default() -> Self {
        static NAME: LazyLock<QueueName> = LazyLock::new(|| QueueName(QueueName::DEFAULT.into()));
        NAME.clone()
    }
}

fn name_problem(given: &str) -> Option<&'static str> {
    if given.is_empty() {
        Some("must not be empty")
    } else if given.len() > MAX_NAME_BYTES {
        Some("must not be longer than 128 bytes")
    } else if given.chars().any(char::is_control) {
        Some("must not hold control characters")
    } else {
        None
    }
}

/// The database schema that holds the queue. Default: `uniqueue`.
///
/// A letter or underscore, then letters, digits, `_` or `-` (ASCII), at most
/// [`MAX_SCHEMA_BYTES`] bytes, not starting with `pg_`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct SchemaName(String);

impl SchemaName {
    /// Checks a schema name.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] when the name is not of the form above.
    pub fn new(given: impl Into<String>) -> Result<Self> {
        let given = given.into();
        let first_is_fine = given.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let rest_is_fine = given.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let problem = if !first_is_fine || !rest_is_fine {
            Some("must be a letter or underscore, then letters, digits, _ or -")
        } else if given.len() > MAX_SCHEMA_BYTES {
            Some("must not be longer than 50 bytes")
        } else if given.starts_with("pg_") {
            Some("must not start with pg_, which PostgreSQL reserves")
        } else {
            None
        };
        match problem {
            None => Ok(Self(given)),
            Some(problem) => Err(Error::InvalidName { what: "schema", problem, given }),
        }
    }

    /// The name as text, unquoted.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as an SQL identifier, quoted.
    #[must_use]
    pub fn quoted(&self) -> String {
        // The alphabet above holds no double quote, so none needs doubling.
        format!("\"{}\"", self.0)
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        Self("uniqueue".to_owned())
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for SchemaName {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        Self::new(given)
    }
}

/// A job's id: a UUIDv7 made by the client. So ids follow time, and an insert that is sent again with the same id
/// is recognised.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// A new id. Ids of one process are in the order in which they were made.
    #[must_use]
    pub fn generate() -> Self {
        NewIds::now().generate()
    }

    /// The lowest id of a millisecond. Jobs that were inserted later have higher ids, as far as the clocks of the clients
    /// were right. As `uniqueue.id_at` in SQL. Times before 1970 and after 10889 give the first and the last id.
    ///
    /// ```
    /// # use uniqueue::JobId;
    /// let at = time::macros::datetime!(2026-02-12 15:15:00 UTC);
    /// assert_eq!(JobId::first_at(at).to_string(), "019c526b-7520-0000-0000-000000000000");
    /// ```
    #[must_use]
    pub fn first_at(at: OffsetDateTime) -> JobId {
        let millis = (at.unix_timestamp_nanos() / 1_000_000).clamp(0, (1 << 48) - 1);
        JobId(Uuid::from_u128(millis.unsigned_abs() << 80))
    }

    /// The id as a UUID.
    #[must_use]
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

/// New ids of one moment, for which the clock is read once.
#[derive(Clone, Copy)]
pub(crate) struct NewIds {
    since_epoch: Duration,
}

impl NewIds {
    pub(crate) fn now() -> Self {
        Self { since_epoch: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() }
    }

    pub(crate) fn generate(self) -> JobId {
        // One for the process, so that the ids of all its threads are in order.
        static ORDER: Mutex<ContextV7> = Mutex::new(ContextV7::new());
        let at = Timestamp::from_unix(&ORDER, self.since_epoch.as_secs(), self.since_epoch.subsec_nanos());
        JobId(Uuid::new_v7(at))
    }
}

impl From<&JobId> for JobId {
    fn from(id: &JobId) -> Self {
        *id
    }
}

impl From<Uuid> for JobId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        given.parse().map(Self).map_err(|_| Error::InvalidJobId { given: given.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_long_and_control_names_are_refused_by_name() {
        for bad in ["", "a\0b", "tab\t", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(Kind::new(bad).is_err(), "{bad:?}");
            assert!(QueueName::new(bad).is_err(), "{bad:?}");
        }
        let error = QueueName::new("").unwrap_err().to_string();
        assert_eq!(error, "invalid queue: must not be empty: \"\"");
        assert_eq!(Kind::new("é".repeat(64)).unwrap().as_str().len(), 128);
    }

    #[test]
    fn schema_names_cannot_carry_sql() {
        for bad in ["", "1a", "a b", "a\"b", "a;b", "pg_x", "é", &"x".repeat(51)] {
            assert!(SchemaName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(SchemaName::new("my-app").unwrap().quoted(), "\"my-app\"");
    }

    #[test]
    fn ids_of_one_process_are_in_order() {
        let mut ids: Vec<_> = (0..1000).map(|_| JobId::generate()).collect();
        let (earlier, later) = (NewIds::now(), NewIds::now());
        ids.extend((0..1000).map(|n| if n % 2 == 0 { later.generate() } else { earlier.generate() }));
        ids.push(JobId::generate());
        assert!(ids.is_sorted_by(|one, next| one < next));
    }
}
