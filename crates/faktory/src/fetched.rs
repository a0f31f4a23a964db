//! A job that was fetched for a worker.

use uniqueue::FetchedJob;

use crate::payload::{Kept, jid, kept};

/// A fetched job with the Faktory members of its meta, which are read once.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) job: FetchedJob,
    /// `None`: the job was not pushed by a client of Faktory.
    pub(crate) kept: Option<Kept>,
    /// The id by which its worker knows it.
    pub(crate) jid: String,
}

impl From<FetchedJob> for Fetched {
    fn from(job: FetchedJob) -> Self {
        let kept = kept(&job.meta);
        let jid = jid(job.run.id, kept.as_ref());
        Self { job, kept, jid }
    }
}
