//! Counters of suppressed duplicates, by kind and key.

use std::time::Duration;

use serde::{Serialize, Serializer};
use time::OffsetDateTime;

use crate::ident::{JobId, Kind};

/// A kind whose suppressed duplicates are, or were, counted; as
/// [`Client::audited_kinds`](crate::Client::audited_kinds) lists it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditedKind {
    /// The kind of the inserts that were duplicates.
    pub kind: Kind,
    /// Whether they are counted now.
    pub is_audited: bool,
    /// When counting began.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// When counting stopped. `None`: they are counted now.
    #[serde(with = "time::serde::rfc3339::option")]
    pub stopped_at: Option<OffsetDateTime>,
    /// How many there were, over all keys.
    pub suppressed: u64,
    /// When the last one came. `None`: there was none.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_at: Option<OffsetDateTime>,
    /// How long the counter of a key is kept after its last duplicate. Serialized in seconds.
    #[serde(serialize_with = "in_seconds")]
    pub keep: Duration,
    /// Whether nothing is counted now, because the records of duplicates are not folded: no runner does maintenance, or
    /// an open transaction keeps folded records from being removed.
    pub tally_is_full: bool,
}

/// How many inserts of a kind and key were duplicates; as
/// [`Client::suppressed_duplicates`](crate::Client::suppressed_duplicates) lists it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SuppressedDuplicate {
    /// The kind of the inserts. A holder may be of another one, where a key is the caller's own.
    pub kind: Kind,
    /// Their unique key.
    pub unique_key: String,
    /// How many there were.
    pub suppressed: u64,
    /// When the first one came.
    #[serde(with = "time::serde::rfc3339")]
    pub first_at: OffsetDateTime,
    /// When the last one came.
    #[serde(with = "time::serde::rfc3339")]
    pub last_at: OffsetDateTime,
    /// The job that the last one met. It may be gone.
    pub last_holder: JobId,
}

fn in_seconds<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(length.as_secs_f64())
}
