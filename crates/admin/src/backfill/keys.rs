//! From a stored job to the claim that a policy gives it.

use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uniqueue::period::Length;
use uniqueue::{Claim, Error, Job, JobState, OnReentry, Result, StateSet, UniqueKey, UniquePolicy};

use super::judgement::{Given, Judgement};
use super::rows::SeenRow;

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
