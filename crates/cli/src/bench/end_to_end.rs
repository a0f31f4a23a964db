//! From end to end: tasks insert single jobs for a time while others work them.

use std::time::Duration;

use super::work::Work;

/// Connections of the side that inserts.
pub(super) const INSERT_CONNECTIONS: u32 = 16;

/// How many tasks insert, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndToEnd {
    /// SQL has one for each connection.
    pub(super) tasks: usize,
    pub(super) duration: Duration,
    /// The most jobs to insert.
    pub(super) most: u64,
    pub(super) work: Work,
}
