//! The state of the model: jobs as rows, open transactions, and runners.

use crate::setting::{Mutation, Scope, Setting};

/// How many runs a runner has in hand at most: one that it works, and one that was taken away from it.
pub(crate) const MAX_IN_HAND: u8 = 2;

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "the states have the names of the database's")]
pub enum Phase {
    Scheduled,
    Available,
    Running,
    Retryable,
    Completed,
    Cancelled,
    Discarded,
}

impl Phase {
    pub(crate) const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Discarded)
    }

    pub(crate) const fn is_waiting(self) -> bool {
        matches!(self, Self::Scheduled | Self::Available | Self::Retryable)
    }
}

impl Scope {
    pub(crate) fn contains(self, phase: Phase) -> bool {
        match self {
            Self::Queued => phase.is_waiting(),
            Self::Active => phase.is_waiting() || phase == Phase::Running,
            Self::Completed => !matches!(phase, Phase::Cancelled | Phase::Discarded),
            Self::Delayed => matches!(phase, Phase::Scheduled | Phase::Retryable),
        }
    }
}

/// A row.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "they are columns")]
pub struct Job {
    /// Its key, and its group.
    pub key: u8,
    /// Its state.
    pub phase: Phase,
    /// Another job had the key when this one came back to its states.
    pub has_yielded: bool,
    /// The claim was given up for good.
    pub is_released: bool,
    /// The claim's time is over. The index still has it.
    pub is_expired: bool,
    /// The number of its latest run.
    pub run: u8,
    /// The runner of its latest run.
    pub runner: u8,
    /// The mark of a job in order that was fetched.
    pub began: bool,
    /// The mark before the latest fetch.
    pub began_before: bool,
    /// Not a column: whether its work began, and it was not retried by hand since.
    pub has_worked: bool,
    /// An operator made it run again.
    pub is_retried: bool,
    /// The transaction that inserted it and is still open.
    pub inserted_by: Option<u8>,
}

/// A caller's transaction. Sets of jobs are bit masks.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Transaction {
    /// Whether it is open.
    pub is_open: bool,
    /// The key that it inserted a job for. Inserts of others with this key wait for its end.
    pub key: Option<u8>,
    /// The key whose data it changed.
    pub changed: Option<u8>,
    /// Jobs that it locked against a fetch.
    pub shared: u8,
    /// Jobs that it changes at its commit.
    pub updates: u8,
    /// Jobs that it cancels at its commit.
    pub replaces: u8,
    /// Jobs whose claim it releases at its commit.
    pub releases: u8,
}

impl Transaction {
    /// The jobs whose rows it has written, so that others wait for its end.
    pub(crate) const fn written(&self) -> u8 {
        self.updates | self.replaces | self.releases
    }
}

/// A runner.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Runner {
    /// Whether its lease lives.
    pub is_alive: bool,
    /// Runs whose result it has not recorded yet: job and run number.
    pub in_hand: Vec<(u8, u8)>,
}

/// A state of everything.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct World {
    /// The rows, in the order of work. `None`: an insert that was rolled back.
    pub jobs: Vec<Option<Job>>,
    /// The callers' transactions.
    pub transactions: Vec<Transaction>,
    /// The runners.
    pub runners: Vec<Runner>,
    /// Keys with committed changes that no run has read yet.
    pub unworked: Vec<bool>,
    /// A result of one run was applied to another.
    pub has_applied_stale: bool,
    /// A job of a line in order started before the head was final.
    pub has_overtaken: bool,
    /// A job was cancelled for a successor that was never committed.
    pub has_lost: bool,
}

impl World {
    pub(crate) fn new(setting: &Setting) -> Self {
        let runner = Runner { is_alive: true, in_hand: Vec::new() };
        Self {
            jobs: Vec::new(),
            transactions: vec![Transaction::default(); setting.transactions.into()],
            runners: vec![runner; setting.runners.into()],
            unworked: vec![false; setting.keys.into()],
            has_applied_stale: false,
            has_overtaken: false,
            has_lost: false,
        }
    }

    /// A committed job.
    pub(crate) fn committed(&self, id: u8) -> Option<&Job> {
        self.jobs.get(usize::from(id))?.as_ref().filter(|job| job.inserted_by.is_none())
    }

    pub(crate) fn committed_mut(&mut self, id: u8) -> Option<&mut Job> {
        self.jobs.get_mut(usize::from(id))?.as_mut().filter(|job| job.inserted_by.is_none())
    }

    /// The committed jobs with their numbers, in the order of work.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u8, &Job)> {
        (0..).zip(&self.jobs).filter_map(|(id, job)| Some((id, job.as_ref().filter(|job| job.inserted_by.is_none())?)))
    }

    /// The committed job that the unique index has for a key.
    pub(crate) fn holder(&self, setting: &Setting, key: u8) -> Option<u8> {
        self.all().find(|(_, job)| job.key == key && is_in_index(setting, job)).map(|(id, _)| id)
    }

    /// Whether an open transaction keeps a job's row from being changed.
    pub(crate) fn is_locked(&self, id: u8) -> bool {
        self.transactions.iter().any(|open| (open.shared | open.written()) & bit(id) != 0)
    }

    /// Changes the state of a committed job. A job that comes back to its states takes its claim where the key is free.
    /// `false`: the change is not possible.
    pub(crate) fn change(&mut self, setting: &Setting, id: u8, phase: Phase) -> bool {
        let Some(job) = self.committed(id) else { return false };
        let (key, old) = (job.key, job.phase);
        let enters = setting.scope.contains(phase) && !setting.scope.contains(old);
        let others = self.all().any(|(other, job)| other != id && job.key == key && is_in_index(setting, job));
        let is_taken = others || self.transactions.iter().any(|open| open.key == Some(key));
        if enters && is_taken && setting.breaks(Mutation::ReentryFails) {
            return false;
        }
        let Some(job) = self.committed_mut(id) else { return false };
        job.phase = phase;
        if enters {
            job.has_yielded = is_taken && !setting.breaks(Mutation::ReentryTakesTheKey);
        }
        true
    }
}

/// Whether the unique index has a job.
pub(crate) fn is_in_index(setting: &Setting, job: &Job) -> bool {
    setting.scope.contains(job.phase) && !job.has_yielded && !job.is_released
}

pub(crate) const fn bit(id: u8) -> u8 {
    1 << id
}
