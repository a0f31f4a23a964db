//! What a backfill gives to jobs: from a stored job to the claim or the group that a policy gives it.

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uniqueue::period::Length;
use uniqueue::{
    Claim, Client, Error, Job, JobId, JobState, OnReentry, Result, StateSet, UniqueKey, UniquePolicy, policies_of_kind,
};

use super::rows::SeenRow;

/// The decision about a job.
pub(super) enum Judgement {
    /// It is final, and its state claims nothing. It is not counted.
    Passed,
    /// It gets nothing.
    Left,
    /// It has the key and its terms, or the group with its limit and order.
    Unchanged,
    /// It has another key or group, or other terms.
    Other,
    /// It runs, so that its group stays.
    Running,
    /// The policy makes no key from it.
    Unfit(String),
    Given(Given),
}

/// A job with its new key or group.
pub(super) struct Given {
    pub(super) id: JobId,
    pub(super) state: JobState,
    pub(super) key: String,
    /// Whether it would claim the key in its state, at this time.
    pub(super) would_claim: bool,
    /// The new values, and those with which it was seen, for the statement.
    pub(super) row: Value,
}

/// What a backfill gives to jobs.
#[derive(Clone, Debug)]
pub(super) enum Maker {
    Keys(KeyMaker),
    Groups(GroupMaker),
}

impl Maker {
    /// The keys of a kind.
    pub(super) fn keys<J: Job>(client: &Client) -> Result<Self> {
        KeyMaker::of_kind::<J>(policies_of_kind::<J>(client).0).map(Self::Keys)
    }

    /// The groups of a kind.
    pub(super) fn groups<J: Job>(client: &Client) -> Self {
        let (_, policy, limit, in_order) = policies_of_kind::<J>(client);
        Self::Groups(GroupMaker { policy, limit, in_order })
    }

    /// The final states of jobs that are judged as well.
    pub(super) fn final_states(&self) -> StateSet {
        match self {
            Self::Keys(maker) => maker.final_states(),
            Self::Groups(_) => StateSet::EMPTY,
        }
    }

    /// Decides what to do with a job, by the database's time.
    pub(super) fn judge(&self, kind: &str, job: &SeenRow, overwrites: bool, now: OffsetDateTime) -> Judgement {
        match self {
            Self::Keys(maker) => maker.judge(kind, job, overwrites, now),
            Self::Groups(maker) => maker.judge(kind, job, overwrites),
        }
    }
}

/// The final states.
const FINAL: StateSet = StateSet::of(&[JobState::Cancelled, JobState::Completed, JobState::Discarded]);

/// The source of the keys.
#[derive(Clone, Debug)]
pub(super) enum KeyMaker {
    Policy(UniquePolicy),
    /// The kind's own function, from its args as JSON text, and the kind's policy.
    Kind(fn(&str) -> Result<Option<UniqueKey>>, Option<UniquePolicy>),
}

impl KeyMaker {
    pub(super) fn of_policy(policy: UniquePolicy) -> Result<Self> {
        policy.check()?;
        if !policy.is_enforced() {
            return Err(no_policy("the policy enforces nothing: its options are empty"));
        }
        Ok(Self::Policy(policy))
    }

    pub(super) fn of_kind<J: Job>(policy: Option<UniquePolicy>) -> Result<Self> {
        // Without a policy the kind may still make keys of its own, which only its jobs show.
        if let Some(policy) = &policy {
            Self::of_policy(policy.clone())?;
        }
        Ok(Self::Kind(key_of::<J>, policy))
    }

    /// The final states in which a job may claim.
    pub(super) fn final_states(&self) -> StateSet {
        match self {
            Self::Policy(policy) => policy.claim_states().intersection(FINAL),
            Self::Kind(..) => FINAL,
        }
    }

    /// Decides what to do with a job, by the database's time.
    pub(super) fn judge(&self, kind: &str, job: &SeenRow, overwrites: bool, now: OffsetDateTime) -> Judgement {
        let [due, instead] = times(job);
        let claim = match self.claim_as_carried(kind, job, due, instead) {
            Ok(claim) => claim,
            Err(_) if job.state.is_final() && !self.may_claim(job.state) => return Judgement::Passed,
            Err(error) => return Judgement::Unfit(error.problem()),
        };
        if job.state.is_final() && !claim.terms.states.contains(job.state) {
            return Judgement::Passed;
        }
        let ends_at = |due: OffsetDateTime| {
            let limit = claim.terms.period.map(|period| (job.created_at, period));
            let limit = limit.or_else(|| claim.terms.ttl.map(|ttl| (job.created_at.max(due), ttl)));
            limit.map(|(from, length)| ends(from, length)).transpose()
        };
        let unique_until = match ends_at(due) {
            Ok(until) => until,
            Err(problem) => return Judgement::Unfit(problem),
        };
        // The start of a `ttl` may have moved since the insert.
        let is_until = job.unique_until == unique_until
            || (claim.terms.ttl.is_some()
                && job.unique_until.is_some()
                && (job.was_attempted || ends_at(instead) == Ok(job.unique_until)));
        let is_over = unique_until.is_some_and(|until| until <= now) || (claim.terms.until_start && job.was_attempted);
        let would_claim = !is_over && claim.terms.states.contains(job.state);
        let (is_same, given_up) = (job.unique_key.as_ref() == Some(&claim.key), has_given_up(job));
        let is_kept = is_same && (given_up || (is_until && has_terms(job, &claim)));
        // A job that has yielded its claim may find its key free by now.
        if is_kept && (given_up || !job.unique_yielded || !would_claim) {
            return Judgement::Unchanged;
        }
        if job.unique_key.is_some() && !is_kept && !overwrites {
            return Judgement::Other;
        }
        // A length ends within the years that RFC 3339 can write.
        let until = unique_until.and_then(|until| until.format(&Rfc3339).ok());
        let row = json!({
            "id": job.id, "unique_key": claim.key, "unique_until": until,
            "unique_states": claim.terms.states.bits(), "until_start": claim.terms.until_start,
            "discard_on_reentry": claim.terms.on_reentry == OnReentry::Discard, "seen_key": job.unique_key,
            "seen_due": job.due,
        });
        let would_claim = would_claim && !(job.unique_key.is_some() && given_up);
        Judgement::Given(Given { id: job.id, state: job.state, key: claim.key, would_claim, row })
    }

    /// Whether a job from which no key can be made might have claimed in this state. A key of the kind's own function
    /// says so only once it is made.
    fn may_claim(&self, state: JobState) -> bool {
        match self {
            Self::Policy(policy) | Self::Kind(_, Some(policy)) => policy.claim_states().contains(state),
            Self::Kind(_, None) => false,
        }
    }

    /// The claim of a job that was first due at one time or the other. If the job carries one of the two keys, that
    /// key decides.
    fn claim_as_carried(
        &self,
        kind: &str,
        job: &SeenRow,
        due: OffsetDateTime,
        instead: OffsetDateTime,
    ) -> Result<Claim> {
        let claim = self.claim(kind, job, due)?;
        let Some(carried) = job.unique_key.as_ref().filter(|key| **key != claim.key) else { return Ok(claim) };
        Ok(self.claim(kind, job, instead).ok().filter(|claim| claim.key == *carried).unwrap_or(claim))
    }

    fn claim(&self, kind: &str, job: &SeenRow, due: OffsetDateTime) -> Result<Claim> {
        let policy = match self {
            Self::Policy(policy) => policy,
            Self::Kind(key_of, policy) => match (key_of(job.args.get())?, policy) {
                (Some(key), _) => return key.claim(),
                (None, Some(policy)) => policy,
                (None, None) => return Err(no_policy("the kind has neither a policy nor a key of its own")),
            },
        };
        let claim = policy.read_job(kind, &job.queue, &job.args, &job.meta, Some(due), |job| policy.resolve(job))?;
        claim.ok_or_else(|| no_policy("the policy enforces nothing"))
    }
}

fn key_of<J: Job>(args: &str) -> Result<Option<UniqueKey>> {
    let job: J = serde_json::from_str(args).map_err(|error| Error::InvalidJson {
        what: "args",
        kind: J::KIND.to_owned(),
        problem: error.to_string(),
    })?;
    Ok(job.unique_key())
}

/// When the job was first due, which decides its window, and the alternative. A retry moves the time: after one, only
/// the time of the insert is certain. In a first attempt, running or completed, the time has moved only if the job was
/// snoozed.
fn times(job: &SeenRow) -> [OffsetDateTime; 2] {
    let is_first = match job.state {
        JobState::Running | JobState::Completed => !job.was_attempted || job.attempt <= 1,
        _ => !job.was_attempted,
    };
    if is_first { [job.scheduled_at, job.created_at] } else { [job.created_at, job.scheduled_at] }
}

fn ends(from: OffsetDateTime, length: Length) -> Result<OffsetDateTime, String> {
    length.after(from).ok_or_else(|| format!("its claim would end after the year 9999: it begins at {from}"))
}

/// Whether the job gave its claim up for good: it was released, replaced, expired, or started.
fn has_given_up(job: &SeenRow) -> bool {
    job.states().is_empty()
}

/// Whether the job claims on these terms, whenever that ends.
fn has_terms(job: &SeenRow, claim: &Claim) -> bool {
    job.states() == claim.terms.states
        && job.until_start == claim.terms.until_start
        && job.discard_on_reentry == (claim.terms.on_reentry == OnReentry::Discard)
}

fn no_policy(problem: &str) -> Error {
    Error::InvalidPolicy { field: "unique_policy", problem: problem.to_owned() }
}

/// The source of the groups.
///
/// A job without a group is started by a fetch that locks its row, and that checks the locked row once more. So the job
/// starts without a group, or waits with one. A job that leaves a group for another one does so under the lock of its
/// queue's row, under which fetches count the running jobs of groups. A running job is left: its runner took it by the
/// group that it had.
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
