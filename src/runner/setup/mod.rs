//! Setting a runner up: its queues, workers and options, the checks at its start, and what it tells the database of itself.

pub(super) mod builder;
pub(super) mod connections;
pub(super) mod options;
#[cfg(feature = "periodic")]
pub(super) mod periodic;
pub(super) mod registration;
pub(super) mod start;
