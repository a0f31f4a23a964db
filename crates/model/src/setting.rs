//! What a check covers, and which rule it breaks on purpose.

/// The bounds of a check.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The most jobs that are inserted.
    pub jobs: u8,
    /// How many keys there are. The jobs of a key also form a group.
    pub keys: u8,
    /// How many runners.
    pub runners: u8,
    /// The most transactions that are open at once.
    pub transactions: u8,
    /// How often a job is fetched at most.
    pub runs: u8,
    /// In which states jobs claim their key.
    pub scope: Scope,
    /// The answers that duplicates get.
    pub answers: Vec<Answer>,
    /// How runs end.
    pub outcomes: Vec<Outcome>,
    /// How many jobs of a group run at once; none: as many as there are runners.
    pub limit: Option<u8>,
    /// Whether the groups are in order.
    pub in_order: bool,
    /// Whether a runner may lose its lease.
    pub has_crashes: bool,
    /// Whether claims expire.
    pub has_expiry: bool,
    /// Whether an operator cancels, retries and releases jobs.
    pub has_operator: bool,
    /// The rule that is broken, if any.
    pub mutation: Option<Mutation>,
}

impl Setting {
    /// Whether this rule is broken.
    pub(crate) fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

/// In which states a job claims its key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Scope {
    /// While it waits.
    Queued,
    /// While it waits or runs.
    Active,
    /// Also when it is completed.
    Completed,
    /// While it is scheduled or retryable: a job leaves its states and comes back to them.
    Delayed,
}

/// What a duplicate does.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Answer {
    /// The caller gets the holder.
    Ignore,
    /// The caller gets an error that names the holder, and its transaction goes on.
    Reject,
    /// The waiting holder is changed in place.
    Update,
    /// The waiting holder is cancelled.
    Replace,
    /// The holder is cancelled even if it runs.
    Preempt,
    /// A run begins after the commit.
    RunAgain,
    /// The same where the holder is due and another transaction locked it: the newcomer goes in without the claim.
    RunAgainAside,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// The job is done.
    Complete,
    /// It failed, and is tried again.
    Retry,
    /// It is to run later.
    Snooze,
    /// It failed for good.
    Discard,
    /// It was never started: the runner fetched it ahead.
    GiveBack,
}

/// A rule broken on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mutation {
    /// An insert looks for a holder among committed jobs and inserts, without a unique index (R1).
    CheckThenInsert,
    /// A job that comes back to its states claims its key though another job has it (R1).
    ReentryTakesTheKey,
    /// A job that comes back to its states fails where another job has the key (R6).
    ReentryFails,
    /// An expired claim keeps inserts out (R7).
    ExpiredClaimKeepsOut,
    /// A replaced job is cancelled before the transaction commits (R4).
    ReplaceBeforeCommit,
    /// `run_again` answers as `ignore` does (R12).
    RunAgainIgnores,
    /// `update` changes a holder whose run has begun (R13).
    UpdateOfARun,
    /// `run_again` locks its holder, and fetches do not look at locks (R12).
    FetchIgnoresLocks,
    /// A runner counts only its own running jobs (R15).
    CountOwnJobs,
    /// Only a running job holds up its line, not one that is to be tried again (R16).
    RetriesLoseTheHead,
    /// The head of a line is the first in the order, even where another job began (R16).
    HeadByOrderAlone,
    /// Giving a job back clears its mark, although it began earlier (R16).
    GivingBackClearsTheMark,
    /// A result counts for whatever run of the job its runner has.
    FenceWithoutRun,
}
