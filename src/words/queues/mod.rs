//! Queues and kinds: their settings, their counts, and what is asked of them.

pub(crate) mod count;
pub(crate) mod filter;
pub(crate) mod history;
pub(crate) mod kind;
#[cfg(feature = "periodic")]
pub(crate) mod periodic;
pub(crate) mod queue;
pub(crate) mod rate;
pub(crate) mod retention;
