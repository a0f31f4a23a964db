//! Queues: their settings.

pub(crate) mod queue;
pub(crate) mod rate;
pub(crate) mod retention;
