//! Giving queued jobs the groups of a kind that had none, or had others.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use super::grouping::{GroupMaker, Grouping};
use super::pages::{self, BATCH, ProgressListener};
use crate::backfill::{BackfillProgress, GroupBackfillReport};
use crate::client::Client;
use crate::error::Result;
use crate::ident::Kind;
use crate::job::Job;
use crate::unique::UniquePolicy;

/// A backfill of groups, to be awaited. Made by [`Client::backfill_groups`] and [`Client::backfill_groups_of`].
///
/// # Errors
///
/// [`Error::InvalidPolicy`](crate::Error::InvalidPolicy) or another error of a policy that makes no key, or of a kind
/// without a group; [`Error::InvalidName`](crate::Error::InvalidName) for an invalid kind;
/// [`Error::InvalidOption`](crate::Error::InvalidOption) for an invalid group or limit, or an empty batch;
/// [`Error::Database`](crate::Error::Database). Problems of single jobs are in the report.
#[must_use = "a backfill does nothing until it is awaited"]
pub struct GroupBackfill<'a> {
    client: &'a Client,
    kind: String,
    maker: GroupMaker,
    is_dry: bool,
    regroups: bool,
    batch: u32,
    progress: Option<ProgressListener<'a>>,
}

impl<'a> GroupBackfill<'a> {
    fn new(client: &'a Client, kind: impl Into<String>, maker: GroupMaker) -> Self {
        let kind = kind.into();
        Self { client, kind, maker, is_dry: false, regroups: false, batch: BATCH, progress: None }
    }

    /// The jobs start only while fewer jobs of their group run than this, 1 to 32,767. Default: the limit of the kind,
    /// or none for [`Client::backfill_groups_of`].
    pub fn limit(mut self, limit: u16) -> Self {
        self.maker.limit = Some(limit);
        self
    }

    /// The jobs run one at a time in the order of their group. Default: as the kind says, or not for
    /// [`Client::backfill_groups_of`].
    pub fn in_order(mut self) -> Self {
        self.maker.in_order = true;
        self
    }

    /// Changes nothing, and reports what would become of each job now.
    pub fn dry_run(mut self) -> Self {
        self.is_dry = true;
        self
    }

    /// Also changes jobs that have another group already, or this one with another limit or order. A job in order that
    /// began gives its place up if its group changes. Default: they are left as they are, and counted
    /// ([`GroupBackfillReport::other_group`]).
    pub fn regroup(mut self) -> Self {
        self.regroups = true;
        self
    }

    /// How many jobs are given their groups in one transaction. Fetches of the jobs pass them by meanwhile. With
    /// [`regroup`](Self::regroup) fetches of the queue wait for the transaction. Default: 200. At least 1; more than
    /// 2,000 count as 2,000.
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

impl fmt::Debug for GroupBackfill<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client: _, kind, maker, is_dry, regroups, batch, progress: _ } = self;
        f.debug_struct("GroupBackfill")
            .field("kind", kind)
            .field("maker", maker)
            .field("is_dry", is_dry)
            .field("regroups", regroups)
            .field("batch", batch)
            .finish_non_exhaustive()
    }
}

impl<'a> IntoFuture for GroupBackfill<'a> {
    type Output = Result<GroupBackfillReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, kind, maker, is_dry, regroups, batch, progress } = self;
            let kind = Kind::new(kind)?;
            maker.check()?;
            let report = GroupBackfillReport::new(kind.clone(), is_dry);
            let mut rule = Grouping { client, maker, regroups, report };
            let checked = pages::run(client, &kind, &mut rule, batch, progress).await?;
            Ok(GroupBackfillReport { jobs: checked.jobs, contested: checked.contested, ..rule.report })
        })
    }
}

impl Client {
    /// Puts waiting jobs of a kind in the groups that an insert of them would put them in now: for a kind that got a
    /// group, a limit or an order while jobs were queued.
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{Client, Job};
    /// #[derive(Serialize, Deserialize, Job)]
    /// #[job(kind = "sync", group(customer), limit = 3)]
    /// struct Sync {
    ///     customer: u64,
    /// }
    ///
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let report = client.backfill_groups::<Sync>().dry_run().await?;
    /// println!("{} of {} jobs would get a group", report.grouped, report.jobs);
    /// client.backfill_groups::<Sync>().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Deploy the code that inserts with the group first, then backfill: jobs that are inserted meanwhile have their
    /// groups already. Workers and inserts go on. Running jobs are left as they are, and counted. See
    /// [`GroupBackfill`] and docs/learn/groups.md.
    ///
    /// The group is the one of the kind, or of the client's defaults. Its key is made from the stored args, queue and
    /// meta.
    pub fn backfill_groups<J: Job>(&self) -> GroupBackfill<'_> {
        GroupBackfill::new(self, J::KIND, GroupMaker::of_kind::<J>(self.defaults()))
    }

    /// As [`backfill_groups`](Self::backfill_groups), for a kind by its name, and any policy that makes the key of the
    /// group, or [`UniqueKey::raw`](crate::UniqueKey::raw) for one group of them all. The policy's other terms play no
    /// part, and a window is an error.
    pub fn backfill_groups_of(&self, kind: impl Into<String>, policy: impl Into<UniquePolicy>) -> GroupBackfill<'_> {
        GroupBackfill::new(self, kind, GroupMaker::of_policy(policy.into()))
    }
}
