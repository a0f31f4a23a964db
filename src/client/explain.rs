//! Explaining an insert without doing it.

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::insert::prepare_one;
use super::{Call, Client};
use crate::error::Result;
use crate::store::Explained;
use crate::unique::{Duplicate, InsertOutcome, StateSet};
use crate::words::ident::JobId;
use crate::words::job::NewJob;

/// The effect that an insert would have, and the reason. The SQL function `explain_unique` says the same.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The text whose SHA-256 is the key: the part of the job that makes it "the same" as another. `None`
    /// for a key of the caller's own and for a job that is not unique.
    pub canonical: Option<String>,
    /// The unique key; `None` for a job that is not unique.
    pub unique_key: Option<String>,
    /// The states in which the new job would claim its key: [`UniqueKey::raw`](crate::UniqueKey::raw) claims while the job is
    /// queued, a policy's [`key`](crate::UniquePolicy::key) while it is active, unless they say otherwise. Empty for a job
    /// that is not unique.
    pub would_claim_in: StateSet,
    /// The outcome of the insert. `Inserted` also where a job has the id already, which is the answer then, and where an
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

impl Client {
    /// Says what an insert of the job would do, and why, without doing it: no locks, no writes.
    /// Another transaction may change the answer meanwhile.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, NewJob, UniquePolicy};
    /// # use serde_json::json;
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let job = NewJob::new("rebuild_index", &json!({})).unique(UniquePolicy::new());
    /// let explanation = client.explain(job).await?;
    /// if let Some(holder) = explanation.holder {
    ///     println!("{holder}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// In the caller's transaction, which may be read-only, it explains the insert as that transaction would do it.
    ///
    /// # Errors
    ///
    /// As [`Insert`](crate::Insert), without those of a duplicate.
    pub fn explain(&self, job: impl Into<NewJob>) -> Call<'_, Explanation> {
        let job = job.into();
        let request = Call::new(self, |client, connection| Box::pin(explain(client, connection, job)));
        // The database's time where the key depends on it, and what is there.
        request.of_statements(2)
    }
}

async fn explain(client: &Client, connection: &mut PgConnection, job: NewJob) -> Result<Explanation> {
    let (row, canonical) = prepare_one(client, connection, job).await?;
    let Explained { outcome, replaced, holder, new_args, new_scheduled_at } =
        client.store(connection).explain_unique(&row).await?;
    let would_claim_in = row.claim.as_ref().map(|claim| claim.terms.states).unwrap_or_default();
    let unique_key = row.claim.map(|claim| claim.key);
    Ok(Explanation { canonical, unique_key, would_claim_in, outcome, replaced, holder, new_args, new_scheduled_at })
}
