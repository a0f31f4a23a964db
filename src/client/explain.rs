//! Explaining an insert without doing it.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::Client;
use super::insert::prepare_one;
use super::look_up::Source;
use crate::error::Result;
use crate::ident::JobId;
use crate::job::NewJob;
use crate::store::{self, Explained};
use crate::unique::{Duplicate, InsertOutcome};

/// What an insert would do, and why. The SQL function `explain_unique` says the same.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The text whose SHA-256 is the key: the part of the job that makes it "the same" as another. `None`
    /// for a key of the caller's own and for a job that is not unique.
    pub canonical: Option<String>,
    /// The unique key; `None` for a job that is not unique.
    pub unique_key: Option<String>,
    /// What the insert would do. `Inserted` also where a job has the id already, which is the answer then, and where an
    /// update finds the holder full.
    pub outcome: InsertOutcome,
    /// The job that the new one would replace, under `replace`, `replace_except_schedule` and `preempt`.
    pub replaced: Option<JobId>,
    /// The job that claims the key, with its state, its age, and the event that frees the key. `None`: the
    /// key is free.
    pub holder: Option<Duplicate>,
    /// The holder's args after the update, where the outcome is `Updated`.
    pub new_args: Option<Box<RawValue>>,
    /// When the holder is due after the update, where the outcome is `Updated`.
    #[serde(with = "time::serde::rfc3339::option")]
    pub new_scheduled_at: Option<OffsetDateTime>,
}

/// One explanation, to be awaited. Made by [`Client::explain`].
///
/// # Errors
///
/// As [`Insert`](crate::Insert), without those of a duplicate.
#[derive(Debug)]
#[must_use = "an explanation does nothing until it is awaited"]
pub struct Explain<'a> {
    client: &'a Client,
    job: NewJob,
    source: Source<'a>,
}

impl<'a> Explain<'a> {
    pub(super) fn new(client: &'a Client, job: NewJob) -> Self {
        Self { client, job, source: Source::default() }
    }

    /// Explains what the insert would do in the caller's own transaction, or on any other connection
    /// of the caller's. The transaction may be read-only.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.source.connection = Some(connection);
        self
    }

    /// How long each statement may take. See [`Request::timeout`](crate::Request::timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.source.timeout = Some(timeout);
        self
    }
}

impl<'a> IntoFuture for Explain<'a> {
    type Output = Result<Explanation>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, job, source } = self;
            let mut connection = source.open(client).await?;
            let answer = explain(client, &mut connection, job).await;
            connection.end(client, answer).await
        })
    }
}

async fn explain(client: &Client, connection: &mut PgConnection, job: NewJob) -> Result<Explanation> {
    let (row, canonical) = prepare_one(client, connection, job).await?;
    let Explained { outcome, replaced, holder, new_args, new_scheduled_at } =
        store::explain_unique(connection, client.statements(), &row).await?;
    let unique_key = row.claim.map(|claim| claim.key);
    Ok(Explanation { canonical, unique_key, outcome, replaced, holder, new_args, new_scheduled_at })
}
