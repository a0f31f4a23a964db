//! The eight states of a job.

#[doc(inline)]
pub use uniqueue_policy::JobState;
