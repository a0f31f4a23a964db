//! The words of the queue: names, options, rows, answers. No SQL and no task of tokio stands here.

pub(crate) mod event;
pub(crate) mod ident;
mod jobs;
mod queues;
pub(crate) mod state;
pub mod stored_time;
pub(crate) mod tally;

#[cfg(feature = "periodic")]
pub(crate) use self::jobs::periodic;
pub(crate) use self::jobs::{
    after, attempt_error, count, filter, group, job, job_error, kind, opts, outcome, place_by, retry, trace,
    wait_result,
};
pub(crate) use self::queues::{queue, rate, retention};
