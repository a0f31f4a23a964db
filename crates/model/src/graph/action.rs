//! The actions of the model of graphs.

/// An action on a graph. Parents and releasers are numbered from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum GraphAction {
    /// The transaction that inserted the child commits.
    CommitChild,
    /// A parent completes, or fails for good.
    End(u8, bool),
    /// An operator makes a final parent run again, once.
    Retry(u8),
    /// An operator releases the child by hand.
    ReleaseByHand,
    /// A releaser marks the parent of an edge, or finds that it is gone.
    Link(u8, u8),
    /// A releaser does the next statement of its step.
    Next(u8),
    /// A releaser dies, and its transaction is rolled back.
    Crash(u8),
}
