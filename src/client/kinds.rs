//! Registered kinds: registering them, and filling in jobs.

use serde_json::{Value, json};

use super::{Call, Client};
#[cfg(doc)]
use crate::error::Error;
use crate::unique::UniquePolicy;
use crate::words::group::GroupBy;
use crate::words::job::{Job, NewJob};
use crate::words::kind::KindDefinition;
use crate::words::opts::InsertOptions;

impl Client {
    /// The job with the options of its registered kind, where the job leaves them out: the defaults that the database knows of
    /// the kind. [`not_unique`](NewJob::not_unique) and [`not_grouped`](NewJob::not_grouped) give a default up. A job of a kind
    /// that is not registered is returned as it is. An insert by SQL, by the command or by the dashboard does the same. An insert
    /// from Rust never reads the registered kinds.
    ///
    /// ```no_run
    /// # use serde_json::json;
    /// # use uniqueue::{Client, NewJob};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// // With the queue and the policy that the kind's worker has.
    /// let job = client.fill_in(NewJob::new("email.send", &json!({"user_id": 42}))).await?;
    /// client.insert(job).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPolicy`] or [`Error::InvalidPeriod`] where the kind's policy was written by hand and cannot be read;
    /// [`Error::Database`].
    pub fn fill_in(&self, job: impl Into<NewJob>) -> Call<'_, NewJob> {
        let job = job.into();
        Call::new(self, move |client, connection| {
            Box::pin(async move {
                match client.store(connection).registered_kind(job.kind()).await? {
                    Some(kind) => job.or_registered(&kind),
                    None => Ok(job),
                }
            })
        })
    }

    /// Registers a kind: its [options](Job::options), and this client's defaults where they say nothing. They replace what the
    /// same program, which is the file of this process, registered before. What other programs declared of the kind stays. A
    /// runner registers the kinds of its workers when it starts. A process that only inserts calls this once at its start.
    /// Returns whether any program has declared anything of it.
    ///
    /// A key made by [`Job::unique_key`], the kind's meta and a fixed start time cannot be registered. The timeout and the
    /// backoff of an earlier registration stay.
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{Client, Job};
    /// #[derive(Serialize, Deserialize, Job)]
    /// #[job(kind = "email.send", queue = "emails")]
    /// struct SendEmail {
    ///     #[job(unique)]
    ///     user_id: u64,
    /// }
    ///
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// client.register::<SendEmail>().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`], [`Error::InvalidPolicy`] and [`Error::InvalidPeriod`] for options with which every insert
    /// fails; [`Error::Database`], also for a role that may not register.
    pub fn register<J: Job>(&self) -> Call<'_, bool> {
        let definition = KindDefinition::new(J::KIND, J::options().or(self.defaults()));
        let subject = json!({ "kind": J::KIND });
        Call::change(self, "register_kind", subject, move |client, connection| {
            Box::pin(async move {
                let kinds = client.store(connection).register_kinds(&[definition?], None).await?;
                Ok(!kinds.is_empty())
            })
        })
    }

    /// The document of a registered kind, whose options an insert takes. `None`: the kind is not registered.
    pub(crate) fn registered_kind(&self, name: &str) -> Call<'_, Option<Value>> {
        let name = name.to_owned();
        Call::new(self, move |client, connection| {
            Box::pin(async move { client.store(connection).registered_kind(&name).await })
        })
    }

    /// Registers the kinds of a runner's workers. Answers with the digest of each definition.
    pub(crate) fn register_kinds(
        &self,
        definitions: Vec<KindDefinition>,
        runner: &str,
    ) -> Call<'_, Vec<(String, String)>> {
        let runner = runner.to_owned();
        Call::change(self, "register_kind", Value::Null, move |client, connection| {
            Box::pin(async move { client.store(connection).register_kinds(&definitions, Some(&runner)).await })
        })
    }
}

/// What the options of a kind, and the client's defaults, say of its keys and its groups: both policies, the limit and the
/// order.
pub fn policies_of_kind<J: Job>(client: &Client) -> (Option<UniquePolicy>, Option<UniquePolicy>, Option<u16>, bool) {
    let InsertOptions { unique, group, group_limit, in_order, .. } = J::options().or(client.defaults());
    let group = match group {
        Some(GroupBy::Policy(policy)) => Some(*policy),
        Some(GroupBy::Key(key)) => Some(UniquePolicy::new().key(key)),
        Some(GroupBy::Nothing) | None => None,
    };
    (unique.filter(UniquePolicy::is_enforced), group, group_limit, in_order.unwrap_or_default())
}
