//! The bounds of a check of graphs, and the rule that it breaks on purpose.

/// The bounds of a check of graphs.
#[derive(Clone, Debug)]
pub struct GraphSetting {
    /// How many parents the child has.
    pub parents: u8,
    /// How many of the parents are inserted together with the child. The insert marks these parents.
    pub inserted_together: u8,
    /// How many releasers there are.
    pub releasers: u8,
    /// Whether the child is cancelled when a parent fails (`after`), or runs anyway (`after_final`).
    pub needs_success: bool,
    /// Whether runners delete completed jobs that are not marked.
    pub deletes_completed: bool,
    /// The rule that is broken, if any.
    pub mutation: Option<GraphMutation>,
}

/// A rule of graphs that is broken on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GraphMutation {
    /// The releaser asks whether a parent is open with the view that it had before it locked the child.
    AskBeforeLock,
    /// The releaser does not lock the child.
    NoLock,
    /// A parent that was not inserted together with its child is never marked.
    NeverLinked,
    /// The mark is taken away though an edge is open.
    MarkTakenTooEarly,
    /// The end of a parent that is gone is never noted.
    GoneIsForgotten,
    /// The failure of a parent is noted as its completion.
    FailedCountsAsCompleted,
    /// The releaser does not look at the child's state when it releases it.
    NoLockNoLook,
}
