//! From a stored job to the group that a kind or a policy gives it.
//!
//! A job without a group is started by a fetch that locks its row, and that checks the locked row once more. So the job
//! starts without a group, or waits with one. A job that leaves a group for another one does so under the lock of its
//! queue's row, under which fetches count the running jobs of groups. A running job is left: its runner took it by the
//! group that it had.

use serde_json::json;
use uniqueue::{Error, JobState, Result, UniquePolicy};

use super::judgement::{Given, Judgement};
use super::rows::SeenRow;

/// The source of the groups.
#[derive(Clone, Debug)]
pub(super) struct GroupMaker {
    /// `None`: the kind has no group.
    pub(super) policy: Option<UniquePolicy>,
    pub(super) limit: Option<u16>,
    pub(super) in_order: bool,
}

impl GroupMaker {
    /// Checks all that does not depend on the job.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |problem: &str| Err(Error::InvalidPolicy { field: "group_policy", problem: problem.to_owned() });
        let Some(policy) = &self.policy else { return refuse("the kind has no group") };
        policy.check()?;
        if policy.needs_clock() {
            return Err(Error::InvalidPolicy { field: "window", problem: "a group has none".to_owned() });
        }
        if !policy.is_enforced() {
            return refuse("the policy makes no key: its options are empty");
        }
        let problem = match self.limit {
            Some(0 | 32_768..) => "must be 1 to 32767",
            Some(2..) if self.in_order => "must be 1 for a job that is in_order",
            _ => return Ok(()),
        };
        let given = self.limit.unwrap_or_default().to_string();
        Err(Error::InvalidOption { option: "group_limit", problem, given })
    }

    /// Decides what to do with a job.
    pub(super) fn judge(&self, kind: &str, job: &SeenRow, overwrites: bool) -> Judgement {
        let key = match self.policy.as_ref().map(|policy| {
            policy.read_job(kind, &job.queue, &job.args, &job.meta, None, |subject| policy.group_key(subject))
        }) {
            Some(Ok(Some(key))) => key,
            Some(Ok(None)) | None => return Judgement::Left,
            Some(Err(error)) => return Judgement::Unfit(error.problem()),
        };
        let (seen, group) = (job.group(), (key.as_str(), self.limit, self.in_order));
        if seen == Some(group) {
            Judgement::Unchanged
        } else if seen.is_some() && !overwrites {
            Judgement::Other
        } else if job.state == JobState::Running {
            Judgement::Running
        } else {
            let row = json!({
                "id": job.id, "queue": job.queue, "group_key": key, "group_limit": self.limit,
                "in_order": self.in_order, "seen_group": job.group_key, "seen_updates": job.updates,
            });
            Judgement::Given(Given { id: job.id, state: job.state, key, would_claim: false, row })
        }
    }
}
