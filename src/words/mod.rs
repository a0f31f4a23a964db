//! The words of the queue: names, options, rows, answers. No SQL and no task of tokio stands here.

pub(crate) mod event;
pub(crate) mod ident;
mod jobs;
mod queues;
pub(crate) mod state;
pub mod stored_time;

pub(crate) use self::jobs::{
    after, attempt_error, group, job, job_error, opts, outcome, place_by, retry, trace, wait_result,
};
#[cfg(feature = "periodic")]
pub(crate) use self::queues::periodic;
pub(crate) use self::queues::{count, filter, history, kind, queue, rate, retention};
