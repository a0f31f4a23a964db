//! The setters for the parents of a job, and the values that name a parent.

use crate::words::after::{AfterCondition, Parent, Parents};
use crate::words::ident::JobId;
use crate::words::job::{Inserted, JobRow, NewJob};

impl NewJob {
    /// Runs the job after its parents have completed. The job is `pending` until then. If a parent is cancelled or discarded,
    /// the job is cancelled, with the reason in its errors. A parent is an earlier job of the same [`Client::insert_many`], or
    /// a job that is inserted already:
    ///
    /// ```no_run
    /// # use serde_json::json;
    /// # use uniqueue::{Client, NewJob};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let pages: Vec<_> = (1..=3).map(|page| NewJob::new("fetch", &json!({"page": page}))).collect();
    /// let index = NewJob::new("index", &json!({})).after(&pages);
    /// let alarm = NewJob::new("alarm", &json!({})).after_failed(&pages);
    /// client.insert_many(pages.into_iter().chain([index, alarm])).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// If a parent is a duplicate, the job waits for the holder of its key. If a parent is replaced, the job waits for its
    /// successor. A job that is itself a duplicate gets no parents: its holder stays as it is. A job with parents and with
    /// [`pending`](Self::pending) is an error.
    ///
    /// [`Client::insert_many`]: crate::Client::insert_many
    pub fn after(self, parents: impl Into<Parents>) -> Self {
        self.with_parents(parents.into(), AfterCondition::Completed)
    }

    /// Runs the job after its parents have ended, in any final state. Otherwise as [`NewJob::after`].
    pub fn after_final(self, parents: impl Into<Parents>) -> Self {
        self.with_parents(parents.into(), AfterCondition::Final)
    }

    /// Runs the job after these parents have ended, if at least one of them was cancelled or discarded. If all of them
    /// complete, the job is cancelled. Otherwise as [`NewJob::after`].
    pub fn after_failed(self, parents: impl Into<Parents>) -> Self {
        self.with_parents(parents.into(), AfterCondition::Failed)
    }

    fn with_parents(mut self, parents: Parents, condition: AfterCondition) -> Self {
        self.parents.extend(parents.into_vec().into_iter().map(|parent| (parent, condition)));
        self
    }
}

/// One job as a parent.
trait AsParent {
    fn parent(&self) -> Parent;
}

impl AsParent for NewJob {
    fn parent(&self) -> Parent {
        Parent::OfCall(self.mark.get_or_make())
    }
}

impl AsParent for Inserted {
    fn parent(&self) -> Parent {
        Parent::Stored(self.id())
    }
}

impl AsParent for JobRow {
    fn parent(&self) -> Parent {
        Parent::Stored(self.id)
    }
}

impl AsParent for JobId {
    fn parent(&self) -> Parent {
        Parent::Stored(*self)
    }
}

macro_rules! parents_from {
    ($($type:ty),*) => {$(
        impl From<&$type> for Parents {
            fn from(job: &$type) -> Self {
                Self::new(vec![job.parent()])
            }
        }

        impl From<&[$type]> for Parents {
            fn from(jobs: &[$type]) -> Self {
                Self::new(jobs.iter().map(AsParent::parent).collect())
            }
        }

        impl From<&Vec<$type>> for Parents {
            fn from(jobs: &Vec<$type>) -> Self {
                Self::from(jobs.as_slice())
            }
        }

        impl<const N: usize> From<&[$type; N]> for Parents {
            fn from(jobs: &[$type; N]) -> Self {
                Self::from(jobs.as_slice())
            }
        }

        impl<const N: usize> From<[&$type; N]> for Parents {
            fn from(jobs: [&$type; N]) -> Self {
                Self::new(jobs.into_iter().map(AsParent::parent).collect())
            }
        }
    )*};
}

parents_from!(NewJob, Inserted, JobRow, JobId);

impl From<JobId> for Parents {
    fn from(id: JobId) -> Self {
        Self::new(vec![id.parent()])
    }
}

impl From<Vec<JobId>> for Parents {
    fn from(ids: Vec<JobId>) -> Self {
        Self::from(ids.as_slice())
    }
}
