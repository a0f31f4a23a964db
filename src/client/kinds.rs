//! Registered kinds: registering, listing, removing, and filling in jobs.

use serde_json::{Value, json};

use super::{Call, Client};
#[cfg(doc)]
use crate::error::Error;
use crate::store;
use crate::unique::UniquePolicy;
use crate::words::group::GroupBy;
use crate::words::ident::Kind;
use crate::words::job::{Job, NewJob};
use crate::words::kind::{KindDefinition, KindRow};
use crate::words::opts::InsertOptions;

/// The registered kinds of a schema. Made by [`Client::kinds`].
#[derive(Clone, Copy, Debug)]
pub struct Kinds<'a> {
    client: &'a Client,
}

impl Client {
    /// The registered kinds: the defaults that the database knows of a kind. An insert by SQL, by the command or by the
    /// dashboard takes from them each option that it leaves out, and so does a periodic job that is made by name. An insert
    /// from Rust never reads them: [`Kinds::fill_in`] fills in the options of a job that is made by name.
    ///
    /// ```no_run
    /// # use serde_json::{Value, json};
    /// # use uniqueue::{Client, NewJob};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// for kind in client.kinds().list().await? {
    ///     println!("{}: registered by {}", kind.name, kind.registered_by);
    /// }
    /// // With the queue and the policy that the kind's worker has.
    /// let job = client.kinds().fill_in(NewJob::new("email.send", &json!({"user_id": 42}))).await?;
    /// client.insert(job).await?;
    /// # Ok(()) }
    /// ```
    pub const fn kinds(&self) -> Kinds<'_> {
        Kinds { client: self }
    }

    /// Registers a kind: its [options](Job::options), and this client's defaults where they say nothing. They replace what the
    /// same program, which is the file of this process, registered before. What other programs declared of the kind stays. A
    /// runner registers the kinds of its workers when it starts. A process that only inserts calls this once at its start.
    /// Returns the registered kind. `None`: no program has declared anything of it.
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
    pub fn register<J: Job>(&self) -> Call<'_, Option<KindRow>> {
        let definition = KindDefinition::new(J::KIND, J::options().or(self.defaults()));
        let subject = json!({ "kind": J::KIND });
        Call::change(self, "register_kind", subject, move |client, connection| {
            Box::pin(async move {
                let rows = store::register_kinds(connection, client.statements(), &[definition?], None).await?;
                Ok(rows.into_iter().next().map(|(row, _)| row))
            })
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

impl<'a> Kinds<'a> {
    /// Lists the registered kinds, by name.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn list(&self) -> Call<'a, Vec<KindRow>> {
        Call::new(self.client, |client, connection| Box::pin(store::list_kinds(connection, client.statements(), None)))
    }

    /// Finds a registered kind.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn find(&self, name: &str) -> Call<'a, Option<KindRow>> {
        let names = [name.to_owned()];
        Call::new(self.client, move |client, connection| {
            Box::pin(async move { Ok(store::list_kinds(connection, client.statements(), Some(&names)).await?.pop()) })
        })
    }

    /// The job with the options of its kind, where the job leaves them out ([`KindRow::fill_in`]). A job of a
    /// kind that is not registered is returned as it is.
    ///
    /// # Errors
    ///
    /// [`Error::Database`]; as for [`KindRow::fill_in`].
    pub fn fill_in(&self, job: impl Into<NewJob>) -> Call<'a, NewJob> {
        let job = job.into();
        Call::new(self.client, move |client, connection| {
            Box::pin(async move {
                let names = [job.kind().to_owned()];
                match store::list_kinds(connection, client.statements(), Some(&names)).await?.pop() {
                    Some(kind) => kind.fill_in(job),
                    None => Ok(job),
                }
            })
        })
    }

    /// Forgets what was registered of a kind. Its jobs stay. The next start of a runner with a worker for it registers it
    /// again. Returns whether it was registered.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn remove(&self, name: &str) -> Call<'a, bool> {
        let name = name.to_owned();
        let subject = json!({ "kind": name });
        Call::change(self.client, "remove_kind", subject, move |client, connection| {
            Box::pin(async move { store::remove_kind(connection, client.statements(), &name).await })
        })
    }

    /// Registers the kinds of a runner's workers. Answers with the digest of each definition.
    pub(crate) fn register_of_runner(
        &self,
        definitions: Vec<KindDefinition>,
        runner: &str,
    ) -> Call<'a, Vec<(Kind, String)>> {
        let runner = runner.to_owned();
        Call::change(self.client, "register_kind", Value::Null, move |client, connection| {
            Box::pin(async move {
                let kinds = store::register_kinds(connection, client.statements(), &definitions, Some(&runner)).await?;
                Ok(kinds.into_iter().map(|(row, digest)| (row.name, digest)).collect())
            })
        })
    }
}
