//! One call: from its jobs to their answers.

use std::time::Duration;

use serde_json::Value;
use sqlx::PgConnection;

use super::Client;
use super::batch::{edges, send};
use super::coalescer::insert_shared;
use super::middleware::{Inserting, NextInsert};
use super::resolve::{Resolver, clock, needs_clock};
use crate::client::actor;
use crate::error::{Error, Result};
use crate::metrics;
use crate::store::{self, InsertBatch, LogEntry};
use crate::words::event::Event;
use crate::words::job::{Inserted, NewJob};
use crate::words::trace;

/// Where an insert goes, how long it waits, and whose name is logged.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) client: &'a Client,
    /// The caller's. `None`: one of the pool.
    pub(super) connection: Option<&'a mut PgConnection>,
    pub(super) max_wait: Option<Duration>,
    /// `None`: the insert is not logged.
    pub(super) actor: Option<String>,
}

/// The setters that the builders of inserts share. The type has a field `call`.
macro_rules! call_setters {
    ($type:ident) => {
        impl<'a> $type<'a> {
            /// Inserts in the caller's own transaction, or on any connection of the caller's.
            pub fn tx(mut self, connection: &'a mut ::sqlx::PgConnection) -> Self {
                self.call.connection = Some(connection);
                self
            }

            /// Waits no longer than this for each uncommitted rival with the same key. Default: for ever,
            /// or the connection's `lock_timeout`.
            pub fn max_wait(mut self, max_wait: ::std::time::Duration) -> Self {
                self.call.max_wait = Some(max_wait);
                self
            }

            /// Logs the insert with this name, in the same transaction: see the log of changes (`uniqueue_admin`). At most 200
            /// bytes. Duplicates that changed nothing are not logged. Default: the insert is not logged.
            pub fn actor(mut self, actor: impl Into<String>) -> Self {
                self.call.actor = Some(actor.into());
                self
            }
        }
    };
}
pub(super) use call_setters;

impl<'a> Call<'a> {
    pub(super) const fn new(client: &'a Client) -> Self {
        Self { client, connection: None, max_wait: None, actor: None }
    }

    /// Inserts the jobs, with the client's middleware around it. Answers once a job, in their order.
    pub(super) async fn run(mut self, jobs: Vec<NewJob>) -> Result<Vec<Inserted>> {
        let jobs = trace::carry(jobs);
        let (client, is_callers) = (self.client, self.connection.is_some());
        let entry = self.actor.take().map(|actor| actor::entry(actor, "insert", Value::Null)).transpose()?;
        let middleware = client.insert_middleware();
        let inserted = if middleware.is_empty() || jobs.is_empty() {
            self.insert(jobs, entry).await
        } else {
            let insert = move |jobs| -> Inserting<'_> { Box::pin(self.insert(jobs, entry)) };
            // A box for each branch that is rarely taken: the future of an insert is as large as its largest part.
            Box::pin(NextInsert { middleware, insert: Box::new(insert) }.run(jobs)).await
        };
        client.or_moved(is_callers, inserted).await
    }

    /// Inserts the jobs, counts them, and publishes their events.
    async fn insert(self, jobs: Vec<NewJob>, entry: Option<LogEntry>) -> Result<Vec<Inserted>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let Self { client, connection, max_wait, actor: _ } = self;
        let is_shared = |job: &NewJob| max_wait.is_none() && job.parents.is_empty() && !job.has_given_id();
        let answers = match (connection, entry) {
            (Some(connection), entry) => {
                let inserting = async {
                    client.check_callers_place(connection).await?;
                    insert_and_log(client, connection, jobs, max_wait, entry).await
                };
                Box::pin(inserting).await?
            }
            (None, Some(entry)) => {
                let inserting = async {
                    let mut connection = client.connection().await?;
                    let mut transaction = store::begin_read_committed(&mut connection).await?;
                    let answers = insert_and_log(client, &mut transaction, jobs, max_wait, Some(entry)).await?;
                    store::commit(transaction).await?;
                    Ok::<_, Error>(answers)
                };
                Box::pin(inserting).await?
            }
            (None, None) => match <[NewJob; 1]>::try_from(jobs) {
                Ok([job]) if is_shared(&job) => vec![insert_single(client, job).await?],
                Ok(job) => Box::pin(insert_pooled(client, job.into(), max_wait)).await?,
                Err(jobs) => Box::pin(insert_pooled(client, jobs, max_wait)).await?,
            },
        };
        client.count_inserted(&answers);
        metrics::inserted(&answers);
        let bus = client.bus();
        if bus.is_heard() {
            answers.iter().for_each(|answer| bus.tell(Event::of_insert(answer)));
        }
        Ok(answers)
    }
}

/// Inserts one job, together with others that come at the same time.
async fn insert_single(client: &Client, job: NewJob) -> Result<Inserted> {
    let now = if needs_clock(&job.options, client.defaults()) {
        let asking = async { client.store(&mut *client.connection().await?).database_time().await };
        Some(Box::pin(asking).await?)
    } else {
        None
    };
    insert_shared(client, Resolver::new(client, now).resolve(job)?).await
}

/// Inserts in a transaction, and logs the jobs that were inserted and the holders that were updated.
async fn insert_and_log(
    client: &Client,
    connection: &mut PgConnection,
    jobs: Vec<NewJob>,
    max_wait: Option<Duration>,
    entry: Option<LogEntry>,
) -> Result<Vec<Inserted>> {
    let answers = insert_on(client, connection, jobs, max_wait, false).await?;
    let Some(mut entry) = entry else { return Ok(answers) };
    let is_changed = |answer: &&Inserted| !answer.duplicate || answer.updated;
    let changed: Vec<_> = answers.iter().filter(is_changed).map(Inserted::id).collect();
    if !changed.is_empty() {
        entry.subject = actor::ids(&changed);
        client.store(connection).log_change(&entry, Some(changed.len())).await?;
    }
    Ok(answers)
}

async fn insert_pooled(client: &Client, jobs: Vec<NewJob>, max_wait: Option<Duration>) -> Result<Vec<Inserted>> {
    let mut connection = client.connection().await?;
    let answers = insert_on(client, &mut connection, jobs, max_wait, true).await;
    connection.settle(answers)
}

/// Inserts over a connection, which may be in a transaction of the caller's. Every job is checked before anything is
/// sent. The database is asked for its time only where a key depends on it.
async fn insert_on(
    client: &Client,
    connection: &mut PgConnection,
    jobs: Vec<NewJob>,
    max_wait: Option<Duration>,
    is_own: bool,
) -> Result<Vec<Inserted>> {
    let mut resolver = Resolver::new(client, clock(client, connection, &jobs).await?);
    let (may_exist, edges) = (jobs.iter().any(NewJob::has_given_id), edges(&jobs)?);
    let rows = jobs.into_iter().map(|job| resolver.resolve(job)).collect::<Result<_>>()?;
    send(client, connection, InsertBatch { rows, may_exist, is_each: false, edges }, max_wait, is_own).await
}
