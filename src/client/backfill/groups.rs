//! From a stored job to the group that a kind or a policy gives it.
//!
//! A job without a group is started by a fetch that locks its row, and that checks the locked row once more. So the job
//! starts without a group, or waits with one. A job that leaves a group for another one does so under the lock of its
//! queue's row, under which fetches count the running jobs of groups. A running job is left: its runner took it by the
//! group that it had.

use serde_json::{Value, json};

use super::judgement::{Given, Judgement};
use crate::client::insert::read_args;
use crate::error::{Error, Result};
use crate::store::SeenRow;
use crate::unique::{Subject, UniquePolicy};
use crate::words::group::{Group, GroupBy};
use crate::words::job::Job;
use crate::words::opts::InsertOptions;
use crate::words::state::JobState;

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

    /// Decides what to do with a job.
    pub(super) fn judge(&self, kind: &str, job: &SeenRow, overwrites: bool) -> Judgement {
        let group = match self.group(kind, job) {
            Ok(Some(group)) => group,
            Ok(None) => return Judgement::Left,
            Err(error) => return Judgement::Unfit(error.problem()),
        };
        let seen = job.group();
        if seen.as_ref() == Some(&group) {
            Judgement::Unchanged
        } else if seen.is_some() && !overwrites {
            Judgement::Other
        } else if job.state == JobState::Running {
            Judgement::Running
        } else {
            let row = json!({
                "id": job.id, "queue": job.queue, "group_key": group.key, "group_limit": group.limit,
                "in_order": group.in_order, "seen_group": job.group_key, "seen_updates": job.updates,
            });
            Judgement::Given(Given { id: job.id, state: job.state, key: group.key, would_claim: false, row })
        }
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
