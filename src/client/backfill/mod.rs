//! Giving queued jobs the unique keys of a policy that their kind did not have, or had in another form; likewise groups.
//!
//! A backfill pages through all jobs by id, from the oldest to the youngest, in pages that no statement takes long for. It
//! gives keys in small batches, each a transaction of its own. A job that is given its key is handled as one that comes
//! back to its unique states: it yields its claim, and takes it if the key is free. So claims of other jobs and open
//! inserts do not block a batch, and the rule is the usual one: at most one job claims a key, and no job is lost over it.
//!
//! - Locked rows, and keys that an open transaction contests, are left for the end and tried again a few times. No
//!   transaction waits for a backfill longer than for one batch. A backfill waits no longer than 10 ms for a key.
//! - If it is killed in the middle, the committed batches stay. Another run skips them.
//! - Two at once share the work: a row that changed since it was read is read again.

mod claims;
mod grouping;
mod groups;
mod keys;
mod pages;

pub use self::groups::GroupBackfill;

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use self::claims::Claiming;
use self::keys::KeyMaker;
use self::pages::{BATCH, ProgressListener};
use super::Client;
use crate::backfill::{BackfillProgress, BackfillReport, OnCollision};
use crate::error::Result;
use crate::ident::Kind;
use crate::job::Job;
use crate::unique::UniquePolicy;

/// A backfill of unique keys, to be awaited. Made by [`Client::backfill`] and
/// [`Client::backfill_kind`].
///
/// # Errors
///
/// [`Error::InvalidPolicy`](crate::Error::InvalidPolicy) or another error of a policy that makes no key, or of a kind
/// without one; [`Error::InvalidName`](crate::Error::InvalidName) for an invalid kind;
/// [`Error::InvalidOption`](crate::Error::InvalidOption) for an empty batch;
/// [`Error::Database`](crate::Error::Database). Problems of single jobs are in the report.
#[must_use = "a backfill does nothing until it is awaited"]
pub struct Backfill<'a> {
    client: &'a Client,
    kind: String,
    maker: Result<KeyMaker>,
    is_dry: bool,
    rekeys: bool,
    on_collision: OnCollision,
    batch: u32,
    progress: Option<ProgressListener<'a>>,
}

impl<'a> Backfill<'a> {
    fn new(client: &'a Client, kind: impl Into<String>, maker: Result<KeyMaker>) -> Self {
        let (kind, on_collision) = (kind.into(), OnCollision::default());
        Self { client, kind, maker, is_dry: false, rekeys: false, on_collision, batch: BATCH, progress: None }
    }

    /// Changes nothing, and reports what would become of each job now. It keeps each key that it has met in
    /// memory: about 60 bytes for each of the kind's jobs.
    pub fn dry_run(mut self) -> Self {
        self.is_dry = true;
        self
    }

    /// Also changes jobs that carry another key already, or this one on other terms (states, time limits,
    /// `until`, `on_reentry`): they give up what they claimed. Default: they are left as they are, and
    /// counted ([`BackfillReport::other_key`]). A claim that was given up for good stays so, under the new key too.
    pub fn rekey(mut self) -> Self {
        self.rekeys = true;
        self
    }

    /// The fate of a job whose key another job claims, most often an older one. Default:
    /// [`OnCollision::GoOn`].
    pub fn on_collision(mut self, on_collision: OnCollision) -> Self {
        self.on_collision = on_collision;
        self
    }

    /// How many jobs are given their keys in one transaction. A worker that finishes one of them waits for the
    /// transaction. Default: 200, which take about 50 ms. At least 1; more than 2,000 count as 2,000.
    pub fn batch(mut self, jobs: u32) -> Self {
        self.batch = jobs;
        self
    }

    /// Calls this after every batch.
    pub fn on_progress(mut self, listener: impl FnMut(BackfillProgress) + Send + 'a) -> Self {
        self.progress = Some(Box::new(listener));
        self
    }
}

impl fmt::Debug for Backfill<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client: _, kind, maker, is_dry, rekeys, on_collision, batch, progress: _ } = self;
        f.debug_struct("Backfill")
            .field("kind", kind)
            .field("maker", maker)
            .field("is_dry", is_dry)
            .field("rekeys", rekeys)
            .field("on_collision", on_collision)
            .field("batch", batch)
            .finish_non_exhaustive()
    }
}

impl<'a> IntoFuture for Backfill<'a> {
    type Output = Result<BackfillReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, kind, maker, is_dry, rekeys, on_collision, batch, progress } = self;
            let (kind, maker) = (Kind::new(kind)?, maker?);
            let report = BackfillReport::new(kind.clone(), is_dry);
            let mut rule = Claiming { client, maker, rekeys, on_collision, report, met: HashMap::new() };
            let checked = pages::run(client, &kind, &mut rule, batch, progress).await?;
            let (jobs, contested) = (checked.jobs, checked.contested);
            Ok(BackfillReport { jobs, contested, ..rule.report })
        })
    }
}

impl Client {
    /// Gives queued jobs of a kind the unique keys that an insert of them would make now: for a kind that became
    /// unique, or whose policy changed, while jobs were queued.
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{Client, Job};
    /// #[derive(Serialize, Deserialize, Job)]
    /// #[job(kind = "email.send", unique)]
    /// struct SendEmail {
    ///     user_id: u64,
    /// }
    ///
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let report = client.backfill::<SendEmail>().dry_run().await?;
    /// println!("{} of {} jobs would meet a holder", report.collided, report.jobs);
    /// client.backfill::<SendEmail>().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Deploy the code that inserts with the policy first, then backfill: jobs that are inserted meanwhile have
    /// their keys already. Workers and inserts go on. See [`Backfill`] and docs/learn/unique.md.
    ///
    /// The policy is the one of the kind, or of the client's defaults. Keys are made from the stored args: where the
    /// kind has a [`Job::unique_key`], from these read as `J`.
    pub fn backfill<J: Job>(&self) -> Backfill<'_> {
        Backfill::new(self, J::KIND, KeyMaker::of_kind::<J>(self.defaults()))
    }

    /// As [`backfill`](Self::backfill), for a kind by its name and any policy.
    pub fn backfill_kind(&self, kind: impl Into<String>, policy: UniquePolicy) -> Backfill<'_> {
        Backfill::new(self, kind, KeyMaker::of_policy(policy))
    }
}
