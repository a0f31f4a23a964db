//! The changes of many jobs, and their words.

use time::OffsetDateTime;
use uniqueue::{Change, Client, JobSelection, JobState, StateSet};

/// A change of jobs, as operators make it of many at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum JobVerb {
    /// As [`Client::retry`].
    Retry,
    /// As [`Client::cancel`].
    Cancel,
    /// As [`Client::discard`].
    Discard,
    /// As [`Client::release`].
    Release,
    /// As [`Client::delete`].
    Delete,
    /// As [`Client::reschedule`].
    Reschedule(OffsetDateTime),
    /// As [`Client::set_priority`].
    Priority(i16),
}

/// The forms of a verb, for messages.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct VerbWords {
    /// Its name in commands, forms and JSON, such as `retry`.
    pub name: &'static str,
    /// Such as `retrying`.
    pub present: &'static str,
    /// Such as `retried`.
    pub past: &'static str,
    /// Such as `Retry`, before a number of jobs.
    pub imperative: &'static str,
    /// Such as `be retried`, after `will` or `would`.
    pub passive: &'static str,
    /// The jobs that it can change, such as `pending jobs`.
    pub changes: &'static str,
}

impl JobVerb {
    /// The change of this name, of those that need no value.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Retry, Self::Cancel, Self::Discard, Self::Release, Self::Delete];
        all.into_iter().find(|verb| verb.words().name == name)
    }

    /// Its forms.
    #[must_use]
    pub const fn words(self) -> VerbWords {
        const LATER: &str = "jobs that have not started";
        const OPEN: &str = "jobs that have not ended";
        const TRIED: &str = "jobs that have ended, wait for a retry or are scheduled";
        let [name, present, past, imperative, passive, changes] = match self {
            Self::Retry => ["retry", "retrying", "retried", "Retry", "be retried", TRIED],
            Self::Cancel => ["cancel", "cancelling", "cancelled", "Cancel", "be cancelled", OPEN],
            Self::Discard => ["discard", "discarding", "discarded", "Discard", "be discarded", OPEN],
            Self::Release => ["release", "releasing", "released", "Release", "be released", "pending jobs"],
            Self::Delete => ["delete", "deleting", "deleted", "Delete", "be deleted", "jobs that do not run"],
            Self::Reschedule(_) => ["reschedule", "rescheduling", "rescheduled", "Reschedule", "be rescheduled", LATER],
            Self::Priority(_) => [
                "priority",
                "changing the priority",
                "changed the priority of",
                "Change the priority of",
                "get another priority",
                LATER,
            ],
        };
        VerbWords { name, present, past, imperative, passive, changes }
    }

    /// The states in which it can change a job.
    #[must_use]
    pub fn states(self) -> StateSet {
        use JobState::{Available, Cancelled, Completed, Discarded, Pending, Retryable, Running, Scheduled};
        let all = StateSet::of(&JobState::ALL);
        match self {
            Self::Retry => all.without(Available).without(Pending).without(Running),
            Self::Cancel | Self::Discard => all.without(Cancelled).without(Completed).without(Discarded),
            Self::Release => Pending.into(),
            Self::Delete => all.without(Running),
            Self::Reschedule(_) | Self::Priority(_) => StateSet::of(&[Available, Pending, Retryable, Scheduled]),
        }
    }

    /// The states that a filter without states means. A retry of such a filter does not run completed or cancelled jobs again.
    #[must_use]
    pub fn default_states(self) -> StateSet {
        match self {
            Self::Retry => StateSet::of(&[JobState::Discarded, JobState::Retryable]),
            _ => self.states(),
        }
    }

    /// The change of these jobs, to be awaited.
    pub fn change<'a>(self, client: &'a Client, jobs: impl Into<JobSelection>) -> Change<'a> {
        match self {
            Self::Retry => client.retry(jobs),
            Self::Cancel => client.cancel(jobs),
            Self::Discard => client.discard(jobs),
            Self::Release => client.release(jobs),
            Self::Delete => client.delete(jobs),
            Self::Reschedule(at) => client.reschedule(jobs, at),
            Self::Priority(priority) => client.set_priority(jobs, priority),
        }
    }
}
