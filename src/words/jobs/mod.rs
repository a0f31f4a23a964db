//! Jobs: how they are inserted and selected, what their kinds say, what their workers answer, what waits for them.

pub(crate) mod after;
mod as_parent;
pub(crate) mod attempt_error;
pub(crate) mod count;
pub(crate) mod filter;
pub(crate) mod group;
pub(crate) mod job;
pub(crate) mod job_error;
mod job_json;
pub(crate) mod kind;
pub(crate) mod opts;
pub(crate) mod outcome;
#[cfg(feature = "periodic")]
pub(crate) mod periodic;
pub(crate) mod place_by;
pub(crate) mod retry;
pub(crate) mod trace;
pub(crate) mod wait_result;
