//! Working: the attempts that run, each from its start to its verdict.

pub(super) mod executor;
pub(super) mod progress;
pub(super) mod verdict;
pub(super) mod work;
