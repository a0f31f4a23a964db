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

mod maker;
mod report;
mod rows;
mod run;

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use uniqueue::{Client, Error, Job, Kind, Result, UniquePolicy};

use self::maker::{GroupMaker, KeyMaker, Maker};
pub use self::report::{BackfillProgress, BackfillReport, Collision, OnCollision, UnfitJob};
use self::run::{ProgressListener, Run, ScanProgress};

/// The default number of jobs that are changed in one transaction.
const BATCH: u32 = 200;

/// A backfill of unique keys or of groups, to be awaited: for a kind that became unique or got a group, or whose policy
/// changed, while jobs were queued.
///
/// ```no_run
/// # use serde::{Deserialize, Serialize};
/// # use uniqueue::{Client, Job};
/// # use uniqueue_admin::Backfill;
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "email.send", unique)]
/// struct SendEmail {
///     user_id: u64,
/// }
///
/// # async fn run(client: Client) -> uniqueue::Result<()> {
/// let report = Backfill::keys::<SendEmail>(&client).dry_run().await?;
/// println!("{} of {} jobs would meet a holder", report.collided, report.jobs);
/// Backfill::keys::<SendEmail>(&client).await?;
/// # Ok(()) }
/// ```
///
/// Deploy the code that inserts with the policy or the group first, then backfill: jobs that are inserted meanwhile have
/// theirs already. Workers and inserts go on. See docs/learn/unique.md and docs/learn/groups.md.
///
/// # Errors
///
/// [`Error::InvalidPolicy`](uniqueue::Error::InvalidPolicy) or another error of a policy that makes no key, or of a kind
/// without one or without a group; [`Error::InvalidName`](uniqueue::Error::InvalidName) for an invalid kind;
/// [`Error::InvalidOption`](uniqueue::Error::InvalidOption) for an invalid group or limit, or an empty batch;
/// [`Error::Database`](uniqueue::Error::Database). Problems of single jobs are in the report.
#[must_use = "a backfill does nothing until it is awaited"]
pub struct Backfill<'a> {
    client: &'a Client,
    kind: String,
    maker: Result<Maker>,
    is_dry: bool,
    overwrites: bool,
    on_collision: OnCollision,
    batch: u32,
    progress: Option<ProgressListener<'a>>,
}

impl<'a> Backfill<'a> {
    fn new(client: &'a Client, kind: impl Into<String>, maker: Result<Maker>) -> Self {
        let (kind, on_collision) = (kind.into(), OnCollision::default());
        Self { client, kind, maker, is_dry: false, overwrites: false, on_collision, batch: BATCH, progress: None }
    }

    /// Gives queued jobs of a kind the unique keys that an insert of them would make now. The policy is the one of the kind,
    /// or of the client's defaults. Keys are made from the stored args: where the kind has a [`Job::unique_key`], from these
    /// read as `J`.
    pub fn keys<J: Job>(client: &'a Client) -> Self {
        Self::new(client, J::KIND, Maker::keys::<J>(client))
    }

    /// As [`keys`](Self::keys), for a kind by its name and any policy.
    pub fn keys_of(client: &'a Client, kind: impl Into<String>, policy: UniquePolicy) -> Self {
        Self::new(client, kind, KeyMaker::of_policy(policy).map(Maker::Keys))
    }

    /// Puts waiting jobs of a kind in the groups that an insert of them would put them in now. The group is the one of the
    /// kind, or of the client's defaults. Its key is made from the stored args, queue and meta. Running jobs are left as they
    /// are, and counted.
    pub fn groups<J: Job>(client: &'a Client) -> Self {
        Self::new(client, J::KIND, Ok(Maker::groups::<J>(client)))
    }

    /// As [`groups`](Self::groups), for a kind by its name, and any policy that makes the key of the group, or
    /// [`UniqueKey::raw`](uniqueue::UniqueKey::raw) for one group of them all. The policy's other terms play no part, and a
    /// window is an error.
    pub fn groups_of(client: &'a Client, kind: impl Into<String>, policy: impl Into<UniquePolicy>) -> Self {
        let policy = Some(policy.into());
        Self::new(client, kind, Ok(Maker::Groups(GroupMaker { policy, limit: None, in_order: false })))
    }

    /// The jobs of a group start only while fewer of them run than this, 1 to 32,767. Default: the limit of the kind, or none
    /// for [`groups_of`](Self::groups_of). Keys have no limit.
    pub fn limit(mut self, limit: u16) -> Self {
        if let Ok(Maker::Groups(maker)) = &mut self.maker {
            maker.limit = Some(limit);
        }
        self
    }

    /// The jobs of a group run one at a time in their order. Default: as the kind says, or not for
    /// [`groups_of`](Self::groups_of). Keys have no order.
    pub fn in_order(mut self) -> Self {
        if let Ok(Maker::Groups(maker)) = &mut self.maker {
            maker.in_order = true;
        }
        self
    }

    /// Changes nothing, and reports what would become of each job now. Of keys it keeps each one that it has met in
    /// memory: about 150 bytes for each of the kind's jobs.
    pub fn dry_run(mut self) -> Self {
        self.is_dry = true;
        self
    }

    /// Also changes jobs that have another key or group already, or this one on other terms: the states, time limits,
    /// `until` and `on_reentry` of a key, the limit and order of a group. Jobs give up what they claimed, and a job in order
    /// that began gives its place up if its group changes. A claim that was given up for good stays so, under the new key
    /// too. Default: they are left as they are, and counted ([`BackfillReport::other_key`],
    /// [`BackfillReport::other_group`]).
    pub fn overwrite(mut self) -> Self {
        self.overwrites = true;
        self
    }

    /// The fate of a job whose key another job claims, most often an older one. Default:
    /// [`OnCollision::GoOn`].
    pub fn on_collision(mut self, on_collision: OnCollision) -> Self {
        self.on_collision = on_collision;
        self
    }

    /// How many jobs are changed in one transaction. A worker that finishes one of them waits for the transaction, and fetches
    /// pass them by. Where jobs leave a group for another, fetches of the queue wait. Default: 200, which take about 50 ms. At
    /// least 1; more than 2,000 count as 2,000.
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
        f.debug_struct("Backfill").field("kind", &self.kind).field("maker", &self.maker).finish_non_exhaustive()
    }
}

impl<'a> IntoFuture for Backfill<'a> {
    type Output = Result<BackfillReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, kind, maker, is_dry, overwrites, on_collision, batch, progress } = self;
            let (kind, maker) = (Kind::new(kind)?, maker?);
            if let Maker::Groups(maker) = &maker {
                maker.check()?;
            }
            if batch == 0 {
                let (option, problem) = ("batch", "must be at least 1");
                return Err(Error::InvalidOption { option, problem, given: batch.to_string() });
            }
            let report = BackfillReport { kind: kind.to_string(), dry_run: is_dry, ..BackfillReport::default() };
            let (batch, progress) = (batch as usize, ScanProgress::of(progress));
            let (met, contested) = (HashMap::new(), Vec::new());
            Run { client, maker, overwrites, on_collision, batch, progress, report, met, contested }.run().await
        })
    }
}
