//! Explaining an insert without doing it.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use sqlx::PgConnection;

use super::Client;
use super::insert::prepare_one;
use super::look_up::Source;
use crate::error::Result;
use crate::job::NewJob;
use crate::state::JobState;
use crate::store;
use crate::unique::{Duplicate, OnConflict, UniqueScope};

/// What an insert would do, and why. The SQL function `explain_unique` says the same.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The text whose SHA-256 is the key: the part of the job that makes it "the same" as another. `None`
    /// for a key of the caller's own and for a job that is not unique.
    pub canonical: Option<String>,
    /// The unique key; `None` for a job that is not unique.
    pub unique_key: Option<String>,
    /// Whether the insert would make a new job. Otherwise it would return the holder, an error that names
    /// it, or the job that has the id already.
    pub would_insert: bool,
    /// Whether the insert would change the holder in place, under `update`.
    pub would_update: bool,
    /// The job that claims the key, with its state, its age, and the event that frees the key. `None`: the
    /// key is free.
    pub holder: Option<Duplicate>,
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
    let key = row.claim.as_ref().map(|claim| claim.key.as_str());
    let met = store::explain_unique(connection, client.statements(), key, row.id).await?;
    let on_conflict = row.claim.as_ref().map_or(OnConflict::Ignore, |claim| claim.on_conflict);
    let is_in = |holder: &Duplicate| match on_conflict {
        OnConflict::Ignore | OnConflict::Reject | OnConflict::Update | OnConflict::RunAgain => false,
        OnConflict::Replace | OnConflict::ReplaceExceptSchedule => holder.holder_state != JobState::Running,
        OnConflict::Preempt => true,
    };
    let would_update = !met.id_is_there
        && on_conflict == OnConflict::Update
        && met.holder.as_ref().is_some_and(|holder| UniqueScope::Queued.states().contains(holder.holder_state));
    Ok(Explanation {
        canonical,
        would_update,
        would_insert: !met.id_is_there && met.holder.as_ref().is_none_or(is_in),
        unique_key: row.claim.map(|claim| claim.key),
        holder: met.holder,
    })
}
