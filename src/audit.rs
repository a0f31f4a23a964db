//! Counts of suppressed duplicates, for operators.

use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use crate::ident::{JobId, Kind};

/// A kind whose suppressed duplicates are or were counted, as
/// [`Client::audited_kinds`](crate::Client::audited_kinds) lists it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditedKind {
    /// The kind of the inserts that were duplicates.
    pub kind: Kind,
    /// Whether they are counted now.
    pub is_audited: bool,
    /// When counting started.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// When counting stopped. `None` if they are counted now.
    #[serde(with = "time::serde::rfc3339::option")]
    pub stopped_at: Option<OffsetDateTime>,
    /// How many there were, over all keys.
    pub suppressed: u64,
    /// When the last duplicate came. `None` if there was none.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_at: Option<OffsetDateTime>,
    /// How long the counter of a key is kept after its last duplicate.
    #[serde(serialize_with = "crate::period::seconds::serialize")]
    pub keep: Duration,
    /// Whether counting has stopped because the buffer of duplicates is full. Maintenance empties the
    /// buffer, so either no runner does maintenance, or an open transaction keeps it from doing so.
    pub tally_is_full: bool,
}

/// The number of duplicates of a kind and key, as
/// [`Client::suppressed_duplicates`](crate::Client::suppressed_duplicates) lists it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SuppressedDuplicate {
    /// The kind of the inserts. The holder of a raw key may be of another kind.
    pub kind: Kind,
    /// Their unique key.
    pub unique_key: String,
    /// How many there were.
    pub suppressed: u64,
    /// When the first duplicate came.
    #[serde(with = "time::serde::rfc3339")]
    pub first_at: OffsetDateTime,
    /// When the last duplicate came.
    #[serde(with = "time::serde::rfc3339")]
    pub last_at: OffsetDateTime,
    /// The holder that the last duplicate met. It may be deleted.
    pub last_holder: JobId,
}
