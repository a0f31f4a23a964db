//! Middleware around inserts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::words::job::{Inserted, NewJob};

/// Runs around every insert of a client: to add meta, to refuse jobs, to see what came of them.
/// Given with [`ClientBuilder::insert_middleware`](crate::ClientBuilder::insert_middleware).
///
/// It is called once for each `insert` and each `insert_many`, in the caller's transaction or not,
/// with all the jobs of the call, before anything is checked or sent. Its changes count as the caller's,
/// so meta that it adds is part of a unique key whose policy selects it.
///
/// ```
/// use uniqueue::{Error, Inserted, InsertMiddleware, NewJob, NextInsert, Result};
///
/// struct Tenant(u32);
///
/// impl InsertMiddleware for Tenant {
///     async fn call(&self, jobs: Vec<NewJob>, next: NextInsert<'_>) -> Result<Vec<Inserted>> {
///         if jobs.iter().any(|job| job.kind().starts_with("internal.")) {
///             return Err(Error::refused("internal jobs are not for tenants"));
///         }
///         next.run(jobs.into_iter().map(|job| job.meta("tenant", self.0)).collect()).await
///     }
/// }
/// ```
///
/// [`Client::explain`](crate::Client::explain) does not insert, and calls no middleware. Nor does what the
/// database inserts by itself: the jobs of periodic schedules, and those of `insert_job` in SQL.
pub trait InsertMiddleware: Send + Sync + 'static {
    /// Runs around one insert. It must return one result for each of the jobs it was called with, in their
    /// order. Outside of a caller's transaction `next` commits: an error that follows does not take the jobs back.
    fn call(&self, jobs: Vec<NewJob>, next: NextInsert<'_>) -> impl Future<Output = Result<Vec<Inserted>>> + Send;
}

/// The rest of an insert: the middleware further in, then the database.
#[must_use = "nothing is inserted unless this is run"]
pub struct NextInsert<'a> {
    pub(super) middleware: &'a [Arc<dyn AnyInsertMiddleware>],
    /// The insert behind the middleware.
    pub(super) insert: Box<dyn FnOnce(Vec<NewJob>) -> Inserting<'a> + Send + 'a>,
}

/// An insert under way.
pub(super) type Inserting<'a> = Pin<Box<dyn Future<Output = Result<Vec<Inserted>>> + Send + 'a>>;

impl NextInsert<'_> {
    /// Inserts the jobs and returns the results, one for each, in their order.
    ///
    /// # Errors
    ///
    /// As for [`Insert`](super::Insert), or the error of a middleware further in.
    pub async fn run(self, jobs: Vec<NewJob>) -> Result<Vec<Inserted>> {
        let Self { middleware, insert } = self;
        let Some((outer, middleware)) = middleware.split_first() else {
            return insert(jobs).await;
        };
        let wanted = jobs.len();
        let answers = outer.call(jobs, NextInsert { middleware, insert }).await?;
        if answers.len() != wanted {
            let problem = format!("an insert middleware returned {} results for {wanted} jobs", answers.len());
            return Err(Error::refused(problem));
        }
        Ok(answers)
    }
}

impl std::fmt::Debug for NextInsert<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NextInsert").field("left", &self.middleware.len()).finish_non_exhaustive()
    }
}

/// An insert middleware whose type is forgotten.
pub(in crate::client) trait AnyInsertMiddleware: Send + Sync {
    fn call<'a>(&'a self, jobs: Vec<NewJob>, next: NextInsert<'a>) -> Inserting<'a>;
}

impl<M: InsertMiddleware> AnyInsertMiddleware for M {
    fn call<'a>(&'a self, jobs: Vec<NewJob>, next: NextInsert<'a>) -> Inserting<'a> {
        Box::pin(InsertMiddleware::call(self, jobs, next))
    }
}

/// The insert middleware of a client, the outermost first.
#[derive(Clone, Default)]
pub(in crate::client) struct InsertLayers(pub(in crate::client) Vec<Arc<dyn AnyInsertMiddleware>>);

impl std::fmt::Debug for InsertLayers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InsertLayers").field(&self.0.len()).finish()
    }
}
