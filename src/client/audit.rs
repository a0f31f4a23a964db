//! The audit of suppressed duplicates: switching it on for a kind, and reading its counters.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde_json::json;
use sqlx::PgConnection;

use super::call::{ChangeCall, make};
use super::look_up::Source;
use super::{Call, Client, actor};
use crate::audit::{AuditedKind, SuppressedDuplicate};
use crate::error::{Error, Result};
use crate::ident::Kind;
use crate::period;
use crate::store;

/// The longest time that a counter can be kept.
const LONGEST_KEEP: Duration = Duration::from_secs(36_525 * 86_400);

/// A change to which kinds are audited, to be awaited. Made by [`Client::audit_duplicates`].
///
/// # Errors
///
/// [`Error::InvalidName`] for an invalid kind, [`Error::InvalidOption`] for a `keep` of more than 100
/// years, [`Error::Database`].
#[derive(Debug)]
#[must_use = "a change does nothing until it is awaited"]
pub struct AuditChange<'a> {
    client: &'a Client,
    connection: Option<&'a mut PgConnection>,
    kind: String,
    is_audited: bool,
    keep: Option<Duration>,
    actor: Option<String>,
}

impl<'a> AuditChange<'a> {
    /// Stops counting. The counters stay until their time is over.
    pub fn stop(mut self) -> Self {
        self.is_audited = false;
        self
    }

    /// How long the counter of a key is kept after the key's last duplicate. Default: as it was, and
    /// at first 7 days. The kind's total stays for good.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Makes the change in the caller's own transaction, or on any other connection of the caller's.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Logs the change with this name, in the same transaction: see the log of changes (`uniqueue_admin`). At most 200 bytes. Default: the
    /// change is not logged.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }
}

impl<'a> IntoFuture for AuditChange<'a> {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, connection, kind, is_audited, keep, actor } = self;
            let kind = Kind::new(kind)?;
            if let Some(keep) = keep.filter(|keep| *keep > LONGEST_KEEP) {
                return Err(Error::InvalidOption {
                    option: "keep",
                    problem: "must not be longer than 100 years",
                    given: format!("{keep:?}"),
                });
            }
            let verb = if is_audited { "audit_duplicates" } else { "stop_audit" };
            let subject = json!({ "kind": kind, "keep": keep.map(period::write) });
            let entry = actor.map(|actor| actor::entry(actor, verb, subject)).transpose()?;
            let change: ChangeCall<()> = Box::new(move |client, connection| {
                Box::pin(async move {
                    store::audit_duplicates(connection, client.statements(), &kind, is_audited, keep).await
                })
            });
            make(client, Source { connection, timeout: None }, entry, change).await
        })
    }
}

/// A list of counters, to be awaited. Made by [`Client::suppressed_duplicates`].
///
/// # Errors
///
/// [`Error::Database`].
pub type SuppressedDuplicates<'a> = Call<'a, Vec<SuppressedDuplicate>, SuppressedDuplicatesQuery>;

/// Which counters are listed.
#[derive(Debug)]
pub struct SuppressedDuplicatesQuery {
    kind: Option<String>,
    unique_key: Option<String>,
    limit: u32,
}

impl SuppressedDuplicates<'_> {
    /// Only inserts of this kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.options.kind = Some(kind.into());
        self
    }

    /// Only inserts with this unique key.
    pub fn unique_key(mut self, unique_key: impl Into<String>) -> Self {
        self.options.unique_key = Some(unique_key.into());
        self
    }

    /// The most counters that are listed. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.options.limit = limit;
        self
    }
}

impl Client {
    /// Counts the inserts of a kind that are duplicates, by their keys, from now on. With
    /// [`stop`](AuditChange::stop): stops counting. Default: no kind is audited, and a duplicate writes nothing.
    ///
    /// ```no_run
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// client.audit_duplicates("email.send").await?;
    /// for counter in client.suppressed_duplicates().kind("email.send").await? {
    ///     println!("{}: {} since {}", counter.unique_key, counter.suppressed, counter.first_at);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// It applies to every insert after its commit, in Rust and in SQL. Neither code nor keys change. Costs and
    /// details are in docs/learn/unique.md.
    pub fn audit_duplicates(&self, kind: impl Into<String>) -> AuditChange<'_> {
        AuditChange { client: self, connection: None, kind: kind.into(), is_audited: true, keep: None, actor: None }
    }

    /// The kinds whose suppressed duplicates are or were counted, by name, with their totals.
    ///
    /// # Errors
    ///
    /// [`Error::Database`].
    pub fn audited_kinds(&self) -> Call<'_, Vec<AuditedKind>> {
        Call::new(self, |client, connection| Box::pin(store::audited_kinds(connection, client.statements())))
    }

    /// How many duplicates of audited kinds were suppressed, by kind and key, the latest first.
    pub fn suppressed_duplicates(&self) -> SuppressedDuplicates<'_> {
        let query = SuppressedDuplicatesQuery { kind: None, unique_key: None, limit: 100 };
        Call::with(self, query, |client, connection, query| {
            Box::pin(async move {
                let SuppressedDuplicatesQuery { kind, unique_key, limit } = query;
                let (kind, unique_key) = (kind.as_deref(), unique_key.as_deref());
                store::suppressed_duplicates(connection, client.statements(), kind, unique_key, limit).await
            })
        })
    }
}
