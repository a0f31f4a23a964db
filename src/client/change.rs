//! Changing jobs by hand: cancel, retry, release, reschedule, delete, and freeing a key.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use sqlx::PgConnection;
use time::OffsetDateTime;

use super::Client;
use super::events::Bus;
use super::prepare::check_schedule;
use crate::error::Result;
use crate::event::{Event, Happened, TAKEN};
use crate::ident::JobId;
use crate::state::JobState;
use crate::store::{self, Changed, Told, Verb};

/// A change to jobs, to be awaited. Made by [`Client::cancel`], [`Client::retry`],
/// [`Client::release`], [`Client::reschedule`] and [`Client::delete`].
///
/// The answer is the ids of the jobs that were changed. Jobs that are not there, or in no state for
/// it, are left out; that is no error.
#[derive(Debug)]
#[must_use = "a change does nothing until it is awaited"]
pub struct Change<'a> {
    client: &'a Client,
    connection: Option<&'a mut PgConnection>,
    verb: Verb,
    ids: Vec<JobId>,
}

impl<'a> Change<'a> {
    fn new<I>(client: &'a Client, verb: Verb, ids: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        Self { client, connection: None, verb, ids: ids.into_iter().map(Into::into).collect() }
    }

    /// Makes the change in the caller's own transaction, or on any connection of the caller's.
    pub fn tx(mut self, connection: &'a mut PgConnection) -> Self {
        self.connection = Some(connection);
        self
    }
}

impl<'a> IntoFuture for Change<'a> {
    type Output = Result<Vec<JobId>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, connection, verb, ids } = self;
            if let Verb::Reschedule(at) = verb {
                check_schedule(at)?;
            }
            let changed = match connection {
                Some(connection) => store::change(connection, client.statements(), verb, &ids).await?,
                None => {
                    let mut connection = client.connection().await?;
                    store::change(&mut connection, client.statements(), verb, &ids).await?
                }
            };
            Ok(changed.into_iter().map(|job| told(client.bus(), verb, job)).collect())
        })
    }
}

/// Tells of a job that was cancelled or retried by hand.
fn told(bus: &Bus, verb: Verb, Changed { id, told }: Changed) -> JobId {
    if let Some(Told { kind, queue, attempt, state }) = told.filter(|_| bus.is_heard()) {
        let happened = match verb {
            Verb::Cancel => Happened::Cancelled { reason: None },
            _ if state == JobState::Discarded => Happened::Discarded { reason: TAKEN.to_owned() },
            _ => Happened::Retried { after: Duration::ZERO, error: None },
        };
        bus.tell(Event { id, kind, queue, attempt, happened });
    }
    id
}

impl Client {
    /// Cancels jobs that are not final yet. A running job is over for the queue at once, and what
    /// its worker says later is dropped. The worker is told within a second
    /// ([`RunningJob::stopped`](crate::RunningJob::stopped)); where its runner only polls, or a
    /// notification is lost, at the runner's next heartbeat, a quarter of its lease later at most.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn cancel<I>(&self, ids: I) -> Change<'_>
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        Change::new(self, Verb::Cancel, ids)
    }

    /// Makes final, retryable and scheduled jobs available at once, with at least one attempt left.
    /// Where another job holds a job's unique key by now, it goes on without its claim.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn retry<I>(&self, ids: I) -> Change<'_>
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        Change::new(self, Verb::Retry, ids)
    }

    /// Lets pending jobs go: they become available, or scheduled where their time has not come.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn release<I>(&self, ids: I) -> Change<'_>
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        Change::new(self, Verb::Release, ids)
    }

    /// Gives jobs that wait another time. A time that has passed makes them available at once.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database);
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for a time outside the years 1 to 9000.
    pub fn reschedule<I>(&self, ids: I, at: OffsetDateTime) -> Change<'_>
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        Change::new(self, Verb::Reschedule(at), ids)
    }

    /// Deletes jobs that no worker has, and with them what they claimed.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn delete<I>(&self, ids: I) -> Change<'_>
    where
        I: IntoIterator,
        I::Item: Into<JobId>,
    {
        Change::new(self, Verb::Delete, ids)
    }

    /// Makes the job that claims a unique key give up its claim for good, and answers with its id.
    /// The job itself goes on.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub async fn release_claim(&self, unique_key: &str) -> Result<Option<JobId>> {
        let mut connection = self.connection().await?;
        store::release_claim(&mut connection, self.statements(), unique_key).await
    }
}
