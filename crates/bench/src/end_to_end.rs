//! From end to end: tasks insert single jobs for a time while others work them.

use std::time::Duration;

use crate::work::Work;

/// Connections of the side that inserts.
pub(crate) const INSERT_CONNECTIONS: u32 = 16;

/// How many tasks insert, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndToEnd {
    /// SQL has one for each connection.
    pub(crate) tasks: usize,
    pub(crate) duration: Duration,
    /// The most jobs to insert.
    pub(crate) most: u64,
    pub(crate) work: Work,
}
