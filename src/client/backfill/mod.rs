//! Giving jobs that are queued already the keys of a policy that their kind did not have, or had
//! otherwise.
//!
//! A backfill walks over all jobs by id, so from the oldest to the youngest, in stretches that no
//! statement takes long for, and gives keys in small batches, each a transaction of its own. A job that
//! is given its key is one that comes back to its unique states: it yields its claim, and takes it if
//! the key is free. So nothing that others claim, or are just inserting, is in the way of a batch, and
//! the rule is the one that jobs always follow: at most one claims a key, and none is lost over it.
//!
//! - Rows that somebody has locked, and keys that an open transaction contests, are left for the end,
//!   and tried again a few times. Nobody waits for a backfill longer than for one batch, and it waits for
//!   nobody longer than 10 ms a key.
//! - Killed in the middle, the batches that committed stay. Running it again passes over them.
//! - Two at once share the work: a row that changed since it was read is read again.

mod keys;
mod walk;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use self::keys::Maker;
use super::Client;
use crate::backfill::{BackfillProgress, BackfillReport, OnCollision};
use crate::error::{Error, Result};
use crate::ident::Kind;
use crate::job::Job;
use crate::unique::UniquePolicy;

/// How many jobs are given their keys in one transaction, unless somebody says otherwise.
const BATCH: u32 = 200;

/// A backfill of unique keys, to be awaited. Made by [`Client::backfill`] and
/// [`Client::backfill_kind`].
///
/// # Errors
///
/// [`Error::InvalidPolicy`] and its kin for a policy that makes no key at all, or a kind that has none;
/// [`Error::InvalidName`] for what cannot be a kind; [`Error::InvalidOption`] for a batch of none;
/// [`Error::Database`]. What is wrong with single jobs is in the report.
#[must_use = "a backfill does nothing until it is awaited"]
pub struct Backfill<'a> {
    client: &'a Client,
    kind: String,
    maker: Result<Maker>,
    is_dry: bool,
    rekeys: bool,
    on_collision: OnCollision,
    batch: u32,
    progress: Option<Box<dyn FnMut(BackfillProgress) + Send + 'a>>,
}

impl<'a> Backfill<'a> {
    fn new(client: &'a Client, kind: impl Into<String>, maker: Result<Maker>) -> Self {
        let (kind, on_collision) = (kind.into(), OnCollision::default());
        Self { client, kind, maker, is_dry: false, rekeys: false, on_collision, batch: BATCH, progress: None }
    }

    /// Changes nothing, and says what would become of each job now. It remembers each key that it has
    /// met: some 60 bytes for each of the kind's jobs.
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

    /// What becomes of a job whose key another job claims, most often an older one. Default:
    /// [`OnCollision::GoOn`].
    pub fn on_collision(mut self, on_collision: OnCollision) -> Self {
        self.on_collision = on_collision;
        self
    }

    /// How many jobs are given their keys in one transaction, so for how many a worker may have to wait
    /// that finishes one of them. Default: 200, some 50 ms. At least 1; more than 2,000 are taken as 2,000.
    pub fn batch(mut self, jobs: u32) -> Self {
        self.batch = jobs;
        self
    }

    /// Calls this after every batch.
    pub fn on_progress(mut self, told: impl FnMut(BackfillProgress) + Send + 'a) -> Self {
        self.progress = Some(Box::new(told));
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
            if batch == 0 {
                return Err(Error::InvalidOption {
                    option: "batch",
                    problem: "must be at least 1",
                    given: batch.to_string(),
                });
            }
            let rules = walk::Rules { maker, is_dry, rekeys, on_collision, batch: batch as usize };
            walk::run(client, kind, rules, progress).await
        })
    }
}

impl Client {
    /// Gives the jobs of a kind that are there already the unique keys that an insert of them would make
    /// now: for a kind that became unique, or whose policy changed, while jobs are queued.
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
    /// Deploy the code that inserts with the policy first, then backfill: what is inserted meanwhile has
    /// its key already. Workers and inserters go on; see [`Backfill`] and docs/unique.md.
    ///
    /// The policy is the one of the kind, or of the client's defaults. Keys are made of the stored args,
    /// [`Job::unique_key`] of these as `J`.
    pub fn backfill<J: Job>(&self) -> Backfill<'_> {
        Backfill::new(self, J::KIND, Maker::of_kind::<J>(self.defaults()))
    }

    /// As [`backfill`](Self::backfill), for a kind by its name and any policy.
    pub fn backfill_kind(&self, kind: impl Into<String>, policy: UniquePolicy) -> Backfill<'_> {
        Backfill::new(self, kind, Maker::of_policy(policy))
    }
}
