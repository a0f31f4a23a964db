//! Changing jobs by hand: cancel, discard, retry, release, reschedule, delete, another priority, and freeing a key.

mod batch;
mod pages;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde_json::json;
use sqlx::PgConnection;
use time::OffsetDateTime;

use self::batch::{Listeners, StatementLimits, change_batch};
use self::pages::Pages;
use super::insert::check_year;
use super::{Call, Client, actor};
use crate::error::Result;
use crate::store::Verb;
use crate::unique::RefusedRetry;
use crate::words::filter::{JobSelection, Selected};
use crate::words::ident::JobId;

/// A change to jobs, to be awaited. Made by [`Client::cancel`], [`Client::discard`], [`Client::retry`],
/// [`Client::retry_graph`], [`Client::release`], [`Client::reschedule`], [`Client::set_priority`] and [`Client::delete`].
///
/// Jobs are selected by their ids, or by a [`JobFilter`](crate::JobFilter):
///
/// ```no_run
/// # use uniqueue::{Client, JobFilter, JobId, JobState};
/// # async fn run(client: Client, id: JobId) -> uniqueue::Result<()> {
/// client.cancel(id).await?;
/// client.retry(JobFilter::new().states(JobState::Discarded).kind("email.send")).await?;
/// # Ok(()) }
/// ```
///
/// It returns the ids of the jobs that were changed. Jobs that do not exist, or are in a state that the change does not
/// apply to, are left out. That is no error. Two kinds of jobs do not come back to a key that another job holds, where
/// their policy says so ([`OnReentry::Discard`](crate::OnReentry::Discard)). A job that waits is discarded instead: its id
/// is among the returned ones, and [`Change::on_discarded`] names it. A final job is not retried and stays as it is:
/// its id is not among the returned ones, and [`Change::on_refused`] names it with the holder.
///
/// By ids, the change is one statement, which waits for locked jobs. By a filter, it pages through the jobs that exist
/// when it starts, by ascending id, and commits each page, so that it never locks many rows for long. A job that stays
/// locked for longer than 0.1 s, by a transaction that is left open, is set aside: it is changed after all others, and
/// the change waits for it as long as it takes. [`Change::tx`] makes all pages in one transaction, and waits as by ids.
///
/// A job that has left the states that the filter asks for is not changed, however late it left them. Nor is a job that is
/// no longer final, where the filter asks when it became so. An error in the middle leaves the earlier pages changed.
/// The same change, made again, does the rest.
#[derive(Debug)]
#[must_use = "a change does nothing until it is awaited"]
pub struct Change<'a> {
    client: &'a Client,
    connection: Option<&'a mut PgConnection>,
    verb: Verb,
    jobs: JobSelection,
    actor: String,
    timeout: Option<Duration>,
    listeners: Listeners<'a>,
}

impl<'a> Change<'a> {
    fn new(client: &'a Client, verb: Verb, jobs: impl Into<JobSelection>) -> Self {
        let (actor, jobs) = (actor::ANONYMOUS.to_owned(), jobs.into());
        Self { client, connection: None, verb, jobs, actor, timeout: None, listeners: Listeners::default() }
    }

    /// Makes the change in the caller's own transaction, or on any other connection of the caller's.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Gives retried jobs all of their attempts again: their `attempt` is 0, and their `max_attempts` stays. Their errors stay, too.
    /// Only for [`Client::retry`]. Default: a retried job has one attempt left, or as many as it had.
    pub fn afresh(mut self) -> Self {
        if let Verb::Retry { afresh } = &mut self.verb {
            *afresh = true;
        }
        self
    }

    /// Logs the change with this name, in the same transaction: see the log of changes (`uniqueue_admin`). 1 to 200 bytes. Default:
    /// `anonymous`.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = actor.into();
        self
    }

    /// How long each statement may take: one that finds the next jobs of a filter, and one that changes a page of them.
    /// Default: the connection's own `statement_timeout`. At least 1 ms.
    ///
    /// A pool whose `statement_timeout` suits short look-ups is too impatient for a filter without an index, which reads the
    /// table until it has a page of jobs. A statement that takes longer ends the change with an error, for which
    /// [`is_statement_timeout`](crate::Error::is_statement_timeout) is true. With [`Change::tx`] such an error aborts the
    /// caller's transaction.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Calls this after each batch, with the ids of the jobs that were changed: for a progress bar, and for a
    /// report when the change is interrupted. Without [`Change::tx`] the batch is committed by then.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobFilter, JobState};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let mut done = 0;
    /// let discarded = JobFilter::new().states(JobState::Discarded);
    /// let retry = client.retry(discarded).on_batch(|changed| {
    ///     done += changed.len();
    ///     println!("{done} so far");
    /// });
    /// retry.await?;
    /// # Ok(()) }
    /// ```
    pub fn on_batch(mut self, listener: impl FnMut(&[JobId]) + Send + 'a) -> Self {
        self.listeners.on_batch = Some(Box::new(listener));
        self
    }

    /// Calls this after each batch, with the ids of the jobs that were discarded instead, because another job
    /// holds their unique key and their policy says so. The change returns their ids as well, and
    /// [`Change::on_batch`] gets them right after this. Not called for a batch without such jobs.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobId};
    /// # async fn run(client: Client, id: JobId) -> uniqueue::Result<()> {
    /// let mut discarded = Vec::new();
    /// let changed = client.retry(id).on_discarded(|ids| discarded.extend_from_slice(ids)).await?;
    /// println!("{} retried", changed.len() - discarded.len());
    /// # Ok(()) }
    /// ```
    pub fn on_discarded(mut self, listener: impl FnMut(&[JobId]) + Send + 'a) -> Self {
        self.listeners.on_discarded = Some(Box::new(listener));
        self
    }

    /// Calls this after each batch, with the final jobs that were not retried, because another job holds their unique
    /// key and their policy says so. They stay as they are, and the change does not return their ids. Only
    /// [`Client::retry`] refuses jobs. Not called for a batch without such jobs.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobId};
    /// # async fn run(client: Client, id: JobId) -> uniqueue::Result<()> {
    /// let retry = client.retry(id).on_refused(|jobs| {
    ///     for job in jobs {
    ///         println!("job {} is not retried: its key is held by {:?}", job.id, job.holder);
    ///     }
    /// });
    /// retry.await?;
    /// # Ok(()) }
    /// ```
    pub fn on_refused(mut self, listener: impl FnMut(&[RefusedRetry]) + Send + 'a) -> Self {
        self.listeners.on_refused = Some(Box::new(listener));
        self
    }
}

impl<'a> IntoFuture for Change<'a> {
    type Output = Result<Vec<JobId>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (client, is_callers) = (self.client, self.connection.is_some());
            let changed = self.make().await;
            client.or_moved(is_callers, changed).await
        })
    }
}

impl Change<'_> {
    async fn make(self) -> Result<Vec<JobId>> {
        let Self { client, connection, verb, jobs, actor, timeout, mut listeners } = self;
        if let Verb::Reschedule(at) = verb {
            check_year("scheduled_at", at)?;
        }
        if let Selected::Filter(filter) = &jobs.0 {
            filter.check()?;
        }
        let entry = &actor::entry(actor, verb.as_str(), actor::subject_of(&jobs, verb))?;
        let is_callers = connection.is_some();
        let connection = &mut *client.connection_or(connection).await?;
        let listeners = &mut listeners;
        // On the client's own connection each transaction has the limit, which ends with it also behind a pooler.
        let before = match timeout.filter(|_| is_callers) {
            Some(timeout) => Some(client.store(connection).limit_statements(timeout).await?),
            None => None,
        };
        let changed = match &jobs.0 {
            Selected::Ids(ids) => {
                let limits = StatementLimits { statement: timeout, lock: None };
                let batch = change_batch(client, connection, verb, ids, None, limits, !is_callers, entry).await?;
                listeners.call(&batch);
                batch.changed
            }
            Selected::Filter(filter) => {
                let connection = &mut *connection;
                Pages { client, connection, is_callers, verb, filter, timeout, entry, listeners }.change_all().await?
            }
        };
        if let Some(before) = before {
            client.store(connection).restore_statement_limit(&before).await?;
        }
        Ok(changed)
    }
}

impl Client {
    /// Cancels jobs that are not final yet. A running job ends for the queue at once, and its worker's result
    /// is dropped. The worker learns of it at once as a rule, within a second at most
    /// ([`AnyJob::stopped`](crate::AnyJob::stopped)). Where its runner only polls, or a notification is
    /// lost, it learns of it at the runner's next heartbeat: a quarter of the lease later at most.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database); for a filter that is empty or contradicts itself,
    /// [`Error::InvalidOption`](crate::Error::InvalidOption),
    /// [`Error::InvalidName`](crate::Error::InvalidName),
    /// [`Error::InvalidKey`](crate::Error::InvalidKey) or
    /// [`Error::InvalidJson`](crate::Error::InvalidJson).
    pub fn cancel(&self, jobs: impl Into<JobSelection>) -> Change<'_> {
        Change::new(self, Verb::Cancel, jobs)
    }

    /// Discards jobs that are not final yet, as jobs that failed for good. Each gets an error with the code `by_operator`. A
    /// running job ends as by [`Client::cancel`].
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn discard(&self, jobs: impl Into<JobSelection>) -> Change<'_> {
        Change::new(self, Verb::Discard, jobs)
    }

    /// Makes final, retryable and scheduled jobs available at once, with at least one attempt left.
    /// Where another job holds a job's unique key by now, the retried job goes on without its claim. Where its
    /// policy says so, a final job stays as it is ([`Change::on_refused`]), and a waiting one is discarded
    /// ([`Change::on_discarded`]).
    ///
    /// A job whose parents have not all ended as it asks becomes pending. So do the jobs that were cancelled because of the
    /// retried ones, and the change returns their ids as well.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn retry(&self, jobs: impl Into<JobSelection>) -> Change<'_> {
        Change::new(self, Verb::Retry { afresh: false }, jobs)
    }

    /// Resumes a failed graph: of the job, all jobs that run after it, and all jobs that these run after, it retries those
    /// that were discarded or cancelled, as [`Client::retry`]. The jobs that were cancelled because of them wait again.
    /// Completed jobs stay. `Admin::retry_graph_plan` of `uniqueue-admin` says before what it does.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn retry_graph(&self, id: impl Into<JobId>) -> Change<'_> {
        Change::new(self, Verb::RetryGraph, id.into())
    }

    /// Releases pending jobs: they become available, due now, or scheduled where their time has not come.
    /// A key that another job holds is handled as by [`Client::retry`].
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn release(&self, jobs: impl Into<JobSelection>) -> Change<'_> {
        Change::new(self, Verb::Release, jobs)
    }

    /// Gives waiting jobs another time. A time in the past makes them available at once. A key that another job
    /// holds is handled as by [`Client::retry`]. A claim with a deadline (`period`, `ttl`) is not extended: it can
    /// end while the job still waits.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`]; [`Error::InvalidOption`](crate::Error::InvalidOption) for a time
    /// outside the years 1 to 9000.
    pub fn reschedule(&self, jobs: impl Into<JobSelection>, at: OffsetDateTime) -> Change<'_> {
        Change::new(self, Verb::Reschedule(at), jobs)
    }

    /// Gives waiting jobs another priority: higher runs first.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn set_priority(&self, jobs: impl Into<JobSelection>, priority: i16) -> Change<'_> {
        Change::new(self, Verb::SetPriority(priority), jobs)
    }

    /// Deletes jobs that are not running, and their claims with them.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn delete(&self, jobs: impl Into<JobSelection>) -> Change<'_> {
        Change::new(self, Verb::Delete, jobs)
    }

    /// Makes the job that claims a unique key give up its claim for good, and returns its id.
    /// The job itself goes on. Without an actor the change is logged as `anonymous`.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn release_claim(&self, unique_key: &str) -> Call<'_, Option<JobId>> {
        let key = unique_key.to_owned();
        let subject = json!({ "unique_key": unique_key });
        let release = Call::change(self, "release_claim", subject, move |client, connection| {
            Box::pin(async move { client.store(connection).release_claim(&key).await })
        });
        release.actor(actor::ANONYMOUS)
    }
}
