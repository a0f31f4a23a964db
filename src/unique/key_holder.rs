//! A claim in a list.

use serde::Serialize;
use time::OffsetDateTime;

use crate::unique::Duplicate;
use crate::words::ident::{Kind, QueueName};

/// A key that is claimed, and the job that claims it; as [`Client::claims`](crate::Client::claims)
/// lists it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeyHolder {
    /// The key, the job, its state and age, and the event that ends its claim.
    #[serde(flatten)]
    pub claim: Duplicate,
    /// The job's kind.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// When it was inserted.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}
