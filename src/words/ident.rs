//! Names, parsed once at the edge: [`Kind`], [`QueueName`], `PeriodicName`, [`PlaceName`], [`SchemaName`], and [`JobId`].

mod parse;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
pub use uniqueue_policy::MAX_NAME_BYTES;
use uuid::{ContextV7, Timestamp, Uuid};

/// The longest schema name, in bytes: PostgreSQL's 63, less the suffix of a NOTIFY channel.
pub const MAX_SCHEMA_BYTES: usize = 50;

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
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

        /// Reads a name that the database has checked: it is not checked again.
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                Ok(Self::from_stored(&Cow::<str>::deserialize(deserializer)?))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
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
    Kind
);

name!(
    /// The name of a queue. The default queue is [`QueueName::DEFAULT`].
    QueueName
);

#[cfg(feature = "periodic")]
name!(
    /// The name of a periodic job.
    PeriodicName
);

name!(
    /// The name of a place: one schema of a [`PlaceMap`](crate::PlaceMap).
    PlaceName
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

/// The database schema that holds the queue. Default: `uniqueue`.
///
/// A letter or underscore, then letters, digits, `_` or `-` (ASCII), at most
/// [`MAX_SCHEMA_BYTES`] bytes, not starting with `pg_`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct SchemaName(String);

impl SchemaName {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_process_are_in_order() {
        let mut ids: Vec<_> = (0..1000).map(|_| JobId::generate()).collect();
        let (earlier, later) = (NewIds::now(), NewIds::now());
        ids.extend((0..1000).map(|n| if n % 2 == 0 { later.generate() } else { earlier.generate() }));
        ids.push(JobId::generate());
        assert!(ids.is_sorted_by(|one, next| one < next));
    }
}
