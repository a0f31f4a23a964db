//! The runs of this library: what an application does with a client and a runner.

pub(super) mod end_to_end;
pub(super) mod insert;
pub(super) mod latency;
pub(super) mod processes;
pub(super) mod release;
pub(super) mod scheduled;
pub(super) mod work;
