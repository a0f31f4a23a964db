//! A backfill of groups: its treatment of a job and of a batch.

use serde_json::Value;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::keys::first_line;
use super::pages::{Judged, Rule};
use crate::backfill::{GroupBackfillReport, UnfitJob};
use crate::client::Client;
use crate::client::insert::read_args;
use crate::error::{Error, Result};
use crate::group::{Group, GroupBy};
use crate::ident::JobId;
use crate::job::Job;
use crate::opts::InsertOptions;
use crate::state::JobState;
use crate::store::{self, Grouped, SeenRow};
use crate::unique::{StateSet, Subject, UniquePolicy};

/// The source of the groups.
#[derive(Clone, Debug)]
pub(super) struct GroupMaker {
    by: GroupBy,
    pub(super) limit: Option<u16>,
    pub(super) in_order: bool,
}

impl GroupMaker {
    pub(super) fn of_policy(policy: UniquePolicy) -> Self {
        Self { by: GroupBy::Policy(Box::new(policy)), limit: None, in_order: false }
    }

    pub(super) fn of_kind<J: Job>(defaults: &InsertOptions) -> Self {
        let InsertOptions { group, group_limit, in_order, .. } = J::options().or(defaults);
        let by = group.unwrap_or(GroupBy::Nothing);
        Self { by, limit: group_limit, in_order: in_order.unwrap_or_default() }
    }

    /// Checks all that does not depend on the job.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |field, problem: &str| Err(Error::InvalidPolicy { field, problem: problem.to_owned() });
        let key = match &self.by {
            GroupBy::Nothing => return refuse("group_policy", "the kind has no group"),
            GroupBy::Key(key) => key.clone(),
            GroupBy::Policy(policy) => {
                policy.check()?;
                if policy.needs_clock() {
                    return refuse("window", "a group has none");
                }
                if !policy.is_enforced() {
                    return refuse("group_policy", "the policy makes no key: its options are empty");
                }
                "made".to_owned()
            }
        };
        Group::new(Some(key), self.limit, self.in_order).map(drop)
    }

    /// The group that an insert of the job would put it in. `None`: in no group.
    fn group(&self, kind: &str, job: &SeenRow) -> Result<Option<Group>> {
        let key = match &self.by {
            GroupBy::Nothing => None,
            GroupBy::Key(key) => Some(key.clone()),
            GroupBy::Policy(policy) => {
                let args = if policy.needs_args() { read_args(kind, &job.args)? } else { Value::Null };
                let meta = if policy.needs_meta() { Value::Object(job.meta.clone()) } else { Value::Null };
                let subject = Subject { kind, queue: &job.queue, args: &args, meta: &meta, window_at: None };
                policy.group_key(&subject)?
            }
        };
        Group::new(key, self.limit, self.in_order)
    }
}

/// Puts waiting jobs in their groups.
///
/// A job without a group is started by a fetch that locks its row, and that checks the locked row once more. So the job
/// starts without a group, or waits with one. A job that leaves a group for another one does so under the lock of its
/// queue's row, under which fetches count the running jobs of groups. A running job is left: its runner took it by the
/// group that it had.
pub(super) struct Grouping<'a> {
    pub(super) client: &'a Client,
    pub(super) maker: GroupMaker,
    pub(super) regroups: bool,
    pub(super) report: GroupBackfillReport,
}

impl Rule for Grouping<'_> {
    type Given = Grouped;

    fn final_states(&self) -> StateSet {
        StateSet::default()
    }

    fn judge(&mut self, job: SeenRow, _: OffsetDateTime) -> Judged<Grouped> {
        let group = match self.maker.group(self.report.kind.as_str(), &job) {
            Ok(Some(group)) => group,
            Ok(None) => return Judged::Left,
            Err(error) => {
                self.report.leave_unfit(UnfitJob { job: job.id, problem: first_line(&error) });
                return Judged::Left;
            }
        };
        if job.group.as_ref() == Some(&group) {
            self.report.unchanged += 1;
        } else if job.group.is_some() && !self.regroups {
            self.report.other_group += 1;
        } else if job.state == JobState::Running {
            self.report.running += 1;
        } else {
            let seen_group = job.group.map(|group| group.key);
            return Judged::Given(Grouped {
                id: job.id,
                queue: job.queue,
                group,
                seen_group,
                seen_updates: job.updates,
            });
        }
        Judged::Left
    }

    async fn give(&mut self, connection: &mut PgConnection, batch: Vec<Grouped>) -> Result<Vec<JobId>> {
        if self.report.dry_run {
            self.report.grouped += batch.len() as u64;
            return Ok(Vec::new());
        }
        let mut transaction = store::begin_batch(connection).await?;
        let grouped = store::backfill_groups(&mut transaction, self.client.statements(), &batch).await?;
        store::commit(transaction).await?;
        self.report.grouped += grouped.len() as u64;
        Ok(batch.iter().map(|job| job.id).filter(|id| !grouped.contains(id)).collect())
    }
}
