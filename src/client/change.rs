//! Changing jobs by hand: cancel, retry, release, reschedule, delete, another priority, and freeing a key.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use sqlx::PgConnection;
use time::OffsetDateTime;

use super::insert::check_schedule;
use super::walk::{Place, Walk};
use super::{Client, Request};
use crate::error::Result;
use crate::event::{Event, Happened, TAKEN};
use crate::filter::{JobSelection, Selected};
use crate::ident::JobId;
use crate::state::JobState;
use crate::store::{self, Changed, Told, Verb};
use crate::unique::StateSet;

/// A change to jobs, to be awaited. Made by [`Client::cancel`], [`Client::retry`],
/// [`Client::release`], [`Client::reschedule`], [`Client::set_priority`] and [`Client::delete`].
///
/// Which jobs is said by their ids, or by a [`JobFilter`](crate::JobFilter):
///
/// ```no_run
/// # use uniqueue::{Client, JobFilter, JobId, JobState};
/// # async fn run(client: Client, id: JobId) -> uniqueue::Result<()> {
/// client.cancel(id).await?;
/// client.retry(JobFilter::new().states(JobState::Discarded).kind("email.send")).await?;
/// # Ok(()) }
/// ```
///
/// The answer is the ids of the jobs that were changed. Jobs that are not there, or in no state for
/// it, are left out; that is no error. A job whose policy says so
/// ([`OnReentry::Discard`](crate::OnReentry::Discard)) is discarded instead of coming back to a key that
/// another job holds: it is among them, and [`Change::on_discarded`] tells which.
///
/// By ids it is one statement, which waits for whoever has one of them locked. By a filter it goes
/// through the jobs that are there when it starts, in batches by ascending id, each a transaction of
/// its own, so that it never locks many rows for long: a job that somebody keeps locked for longer
/// than 0.1 s (a transaction that is left open) is changed when all others are, and the change waits
/// for it as long as it takes. [`Change::tx`] makes one transaction of all, and waits as by ids. A job
/// whose state is no longer one that the filter asks for is left alone, however late it changed, and
/// so is one that is not final any more where the filter asks when it became so. An error in the middle
/// leaves the earlier batches changed: making the same change again does the rest.
#[derive(Debug)]
#[must_use = "a change does nothing until it is awaited"]
pub struct Change<'a> {
    client: &'a Client,
    connection: Option<&'a mut PgConnection>,
    verb: Verb,
    jobs: JobSelection,
    listener: Listener<'a>,
}

/// A batch of jobs that were changed.
pub(super) struct Batch {
    pub(super) changed: Vec<JobId>,
    /// Those of them that their policy discarded instead.
    discarded: Vec<JobId>,
}

/// Who is told of each batch.
#[derive(Default)]
pub(super) struct Listener<'a> {
    batch: Option<Tell<'a>>,
    discarded: Option<Tell<'a>>,
}

type Tell<'a> = Box<dyn FnMut(&[JobId]) + Send + 'a>;

impl Listener<'_> {
    pub(super) fn tell(&mut self, Batch { changed, discarded }: &Batch) {
        if let Some(tell) = &mut self.discarded
            && !discarded.is_empty()
        {
            tell(discarded);
        }
        if let Some(tell) = &mut self.batch {
            tell(changed);
        }
    }
}

impl fmt::Debug for Listener<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_somebody = self.batch.is_some() || self.discarded.is_some();
        f.write_str(if is_somebody { "Listener(_)" } else { "Listener(nobody)" })
    }
}

impl<'a> Change<'a> {
    fn new(client: &'a Client, verb: Verb, jobs: impl Into<JobSelection>) -> Self {
        Self { client, connection: None, verb, jobs: jobs.into(), listener: Listener::default() }
    }

    /// Makes the change in the caller's own transaction, or on any connection of the caller's.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Tells of each batch, right after it is changed, with the ids of its jobs that were: for a bar
    /// that shows how far a long change is, and for what to say when it is interrupted. Without
    /// [`Change::tx`] they are committed by then.
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
    pub fn on_batch(mut self, tell: impl FnMut(&[JobId]) + Send + 'a) -> Self {
        self.listener.batch = Some(Box::new(tell));
        self
    }

    /// Tells of the jobs of each batch that did not come back, but were discarded, since another job
    /// holds their unique key and their policy says so. Their ids are in the answer as well, and
    /// [`Change::on_batch`] is told of them right after this. Not called for a batch without any.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobId};
    /// # async fn run(client: Client, id: JobId) -> uniqueue::Result<()> {
    /// let mut discarded = Vec::new();
    /// let changed = client.retry(id).on_discarded(|ids| discarded.extend_from_slice(ids)).await?;
    /// println!("{} retried", changed.len() - discarded.len());
    /// # Ok(()) }
    /// ```
    pub fn on_discarded(mut self, tell: impl FnMut(&[JobId]) + Send + 'a) -> Self {
        self.listener.discarded = Some(Box::new(tell));
        self
    }
}

impl<'a> IntoFuture for Change<'a> {
    type Output = Result<Vec<JobId>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, connection, verb, jobs, mut listener } = self;
            if let Verb::Reschedule(at) = verb {
                check_schedule(at)?;
            }
            if let Selected::Filter(filter) = &jobs.0 {
                filter.check()?;
            }
            match connection {
                Some(connection) => change(client, connection, Place::Callers, verb, &jobs.0, &mut listener).await,
                None => {
                    let mut connection = client.connection().await?;
                    change(client, &mut connection, Place::Ours, verb, &jobs.0, &mut listener).await
                }
            }
        })
    }
}

async fn change(
    client: &Client,
    connection: &mut PgConnection,
    place: Place,
    verb: Verb,
    jobs: &Selected,
    listener: &mut Listener<'_>,
) -> Result<Vec<JobId>> {
    match jobs {
        Selected::Ids(ids) => {
            let batch = change_batch(client, connection, verb, ids, None, None).await?;
            listener.tell(&batch);
            Ok(batch.changed)
        }
        Selected::Filter(filter) => Walk { client, connection, place, verb, filter, listener }.run().await,
    }
}

pub(super) async fn change_batch(
    client: &Client,
    connection: &mut PgConnection,
    verb: Verb,
    ids: &[JobId],
    states: Option<StateSet>,
    patience: Option<Duration>,
) -> Result<Batch> {
    let jobs = store::change(connection, client.statements(), verb, ids, states, patience).await?;
    let mut batch = Batch { changed: Vec::with_capacity(jobs.len()), discarded: Vec::new() };
    for Changed { id, told } in jobs {
        batch.changed.push(id);
        if let Some(told) = told {
            if told.state == JobState::Discarded {
                batch.discarded.push(id);
            }
            tell(client, verb, id, told);
        }
    }
    Ok(batch)
}

/// Tells subscribers of a job that was cancelled, retried or discarded by hand.
fn tell(client: &Client, verb: Verb, id: JobId, Told { kind, queue, attempt, state }: Told) {
    let happened = match verb {
        _ if state == JobState::Discarded => Happened::Discarded { reason: TAKEN.to_owned() },
        Verb::Cancel => Happened::Cancelled { reason: None },
        Verb::Retry => Happened::Retried { after: Duration::ZERO, error: None },
        Verb::Delete | Verb::Release | Verb::Reschedule(_) | Verb::SetPriority(_) => return,
    };
    client.tell(Event { id, kind, queue, attempt, happened });
}

impl Client {
    /// Cancels jobs that are not final yet. A running job is over for the queue at once, and what
    /// its worker says later is dropped. The worker is told at once as a rule, within a second at most
    /// ([`RunningJob::stopped`](crate::RunningJob::stopped)); where its runner only polls, or a
    /// notification is lost, at the runner's next heartbeat, a quarter of its lease later at most.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database); for a filter that says nothing, or says what
    /// cannot be, [`Error::InvalidOption`](crate::Error::InvalidOption),
    /// [`Error::InvalidName`](crate::Error::InvalidName),
    /// [`Error::InvalidKey`](crate::Error::InvalidKey) or
    /// [`Error::InvalidJson`](crate::Error::InvalidJson).
    pub fn cancel(&self, jobs: impl Into<JobSelection>) -> Change<'_> {
        Change::new(self, Verb::Cancel, jobs)
    }

    /// Makes final, retryable and scheduled jobs available at once, with at least one attempt left.
    /// Where another job holds a job's unique key by now, it goes on without its claim, or is discarded
    /// where its policy says so ([`Change::on_discarded`]).
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn retry(&self, jobs: impl Into<JobSelection>) -> Change<'_> {
        Change::new(self, Verb::Retry, jobs)
    }

    /// Lets pending jobs go: they become available, due now, or scheduled where their time has not come.
    /// What another job's hold on the key does is as for [`Client::retry`].
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn release(&self, jobs: impl Into<JobSelection>) -> Change<'_> {
        Change::new(self, Verb::Release, jobs)
    }

    /// Gives jobs that wait another time. A time that has passed makes them available at once. What
    /// another job's hold on the key does is as for [`Client::retry`]. A claim with a deadline (`period`, `ttl`)
    /// is not prolonged: it can end while the job still waits.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`]; [`Error::InvalidOption`](crate::Error::InvalidOption) for a time
    /// outside the years 1 to 9000.
    pub fn reschedule(&self, jobs: impl Into<JobSelection>, at: OffsetDateTime) -> Change<'_> {
        Change::new(self, Verb::Reschedule(at), jobs)
    }

    /// Gives jobs that wait another priority: higher runs first.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn set_priority(&self, jobs: impl Into<JobSelection>, priority: i16) -> Change<'_> {
        Change::new(self, Verb::SetPriority(priority), jobs)
    }

    /// Deletes jobs that no worker has, and with them what they claimed.
    ///
    /// # Errors
    ///
    /// As for [`Client::cancel`].
    pub fn delete(&self, jobs: impl Into<JobSelection>) -> Change<'_> {
        Change::new(self, Verb::Delete, jobs)
    }

    /// Makes the job that claims a unique key give up its claim for good, and answers with its id.
    /// The job itself goes on.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn release_claim(&self, unique_key: &str) -> Request<'_, Option<JobId>> {
        let key = unique_key.to_owned();
        Request::new(self, move |client, connection| {
            Box::pin(async move { store::release_claim(connection, client.statements(), &key).await })
        })
    }
}
