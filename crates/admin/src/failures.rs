//! Failed jobs, by kind, by code and by error.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uniqueue::{Call, JobId, Kind, QueueName, stored_time};

use crate::Admin;
use crate::statement::{Arguments, ask};

/// In the order of the view, which looks at twice as many jobs.
const KINDS: &str = "SELECT f.kind, f.queues, f.retryable, f.discarded, f.last_failed_at, f.last_error, f.last_job
FROM /* schema */failing_kinds(10000) AS f";

const CODES: &str = "SELECT f.kind, f.code, f.retryable, f.discarded, f.last_failed_at, f.last_error, f.last_job
FROM /* schema */failing_codes(10000) AS f";

const ERRORS: &str = "SELECT f.error_pattern, f.retryable, f.discarded, f.last_failed_at, f.last_error, f.last_job
FROM /* schema */failing_errors($1::jsonb ->> 'kind') AS f";

/// A kind with failed jobs, retryable or discarded, as
/// [`Admin::failing_kinds`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailingKind {
    /// The kind.
    pub kind: Kind,
    /// The queues of these jobs.
    pub queues: Vec<QueueName>,
    /// How many jobs wait for their next attempt.
    pub retryable: u64,
    /// How many jobs were discarded.
    pub discarded: u64,
    /// When the last of them failed.
    #[serde(with = "stored_time::option")]
    pub last_failed_at: Option<OffsetDateTime>,
    /// The error of the last of them.
    pub last_error: Option<String>,
    /// The id of the last of them.
    pub last_job: Option<JobId>,
}

/// The failed jobs of a kind whose last errors have one code, as
/// [`Admin::failing_codes`] lists them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailingCode {
    /// The kind.
    pub kind: Kind,
    /// The code. `None`: their last errors have none.
    pub code: Option<String>,
    /// How many of these jobs wait for their next attempt.
    pub retryable: u64,
    /// How many were discarded.
    pub discarded: u64,
    /// When the last of them failed.
    #[serde(with = "stored_time::option")]
    pub last_failed_at: Option<OffsetDateTime>,
    /// The error of the last of them.
    pub last_error: Option<String>,
    /// The id of the last of them.
    pub last_job: Option<JobId>,
}

/// The failed jobs of a kind whose last errors have one pattern, as
/// [`Admin::failing_errors`] lists them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailingError {
    /// The first line of the errors, with a `#` for each word with a digit.
    pub error_pattern: String,
    /// How many of these jobs wait for their next attempt.
    pub retryable: u64,
    /// How many were discarded.
    pub discarded: u64,
    /// When the last of them failed.
    #[serde(with = "stored_time::option")]
    pub last_failed_at: Option<OffsetDateTime>,
    /// The error of the last of them.
    pub last_error: String,
    /// The id of the last of them.
    pub last_job: JobId,
}

impl<'a> Admin<'a> {
    /// Lists the kinds with failed jobs, the worst first: among the 10,000 waiting jobs that are due first and the last
    /// 10,000 discarded ones. The view `failing_kind` looks at twice as many.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn failing_kinds(self) -> Call<'a, Vec<FailingKind>> {
        ask(self.client, KINDS, Arguments::new())
    }

    /// Lists the failed jobs by kind and the code of their last error ([`JobError::code`](uniqueue::JobError::code)), the code
    /// with the most jobs first: among as many jobs as [`failing_kinds`](Self::failing_kinds) looks at. As the view
    /// `failing_code`.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn failing_codes(self) -> Call<'a, Vec<FailingCode>> {
        ask(self.client, CODES, Arguments::new())
    }

    /// Lists the failed jobs of a kind, retryable or discarded, by the pattern of their last error, the pattern with the most
    /// jobs first, at most 100. It reads all failed jobs of all kinds. As the function `failing_errors` in SQL.
    /// [`JobFilter::error_pattern`](uniqueue::JobFilter::error_pattern) selects the jobs of a pattern.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn failing_errors(self, kind: &str) -> Call<'a, Vec<FailingError>> {
        ask(self.client, ERRORS, Arguments::from_iter([("kind".to_owned(), kind.into())]))
    }
}
