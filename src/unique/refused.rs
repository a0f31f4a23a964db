//! A retry that a unique key prevented.

use serde::Serialize;

use crate::words::ident::JobId;

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
