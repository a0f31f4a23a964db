//! Jobs that run after others, and jobs as their parents.

use crate::after::{AfterCondition, Parent, Parents};
use crate::ident::JobId;
use crate::job::{Inserted, JobRow, NewJob};

impl NewJob {
    /// Runs the job after others have completed. It is `pending` until then, and it is cancelled, with the reason in its
    /// errors, when one of them is cancelled or discarded. The others are jobs of the same [`Client::insert_many`], which come
    /// before it, or jobs that are inserted already:
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
    /// A duplicate as a parent means the job that holds its key, and a parent that was replaced its successor. A job that is
    /// itself a duplicate has no parents: its holder stays as it is. Together with [`pending`](Self::pending) it is an error.
    ///
    /// [`Client::insert_many`]: crate::Client::insert_many
    pub fn after(self, parents: impl Into<Parents>) -> Self {
        self.with_parents(parents.into(), AfterCondition::Completed)
    }

    /// Runs the job after others have ended, however they end. Otherwise as [`NewJob::after`].
    pub fn after_final(self, parents: impl Into<Parents>) -> Self {
        self.with_parents(parents.into(), AfterCondition::Final)
    }

    /// Runs the job after others have ended, if at least one of them was cancelled or discarded. It is cancelled when all
    /// of them complete. Otherwise as [`NewJob::after`].
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
