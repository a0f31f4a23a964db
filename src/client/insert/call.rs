//! One call: from its jobs to their answers.

use std::time::Duration;

use sqlx::PgConnection;

use super::Client;
use super::batch::FoldedBatch;
use super::coalescer::insert_shared;
use super::middleware::{Inserting, NextInsert};
use super::rows::LayeredJobs;
use super::send::send;
use crate::error::Result;
use crate::metrics;
use crate::store;
use crate::words::event::Event;
use crate::words::job::{Inserted, NewJob};

/// Where an insert goes, and how long it waits.
pub(super) struct Call<'a> {
    pub(super) client: &'a Client,
    /// The caller's. `None`: one of the pool.
    pub(super) connection: Option<&'a mut PgConnection>,
    pub(super) max_wait: Option<Duration>,
}

impl<'a> Call<'a> {
    /// Inserts the jobs, with the client's middleware around it.
    pub(super) async fn run_in_middleware(self, jobs: Vec<NewJob>) -> Result<Vec<Inserted>> {
        let middleware = self.client.insert_middleware();
        if middleware.is_empty() || jobs.is_empty() {
            return self.run(jobs).await;
        }
        let insert = move |jobs| -> Inserting<'a> { Box::pin(self.run(jobs)) };
        // A box for each branch that is rarely taken: the future of an insert is as large as its largest part.
        Box::pin(NextInsert { middleware, insert: Box::new(insert) }.run(jobs)).await
    }

    /// Inserts the jobs, counts them, and publishes their events.
    async fn run(self, jobs: Vec<NewJob>) -> Result<Vec<Inserted>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let Self { client, connection, max_wait } = self;
        let answers = match connection {
            Some(connection) => {
                let inserting = async {
                    client.check_callers_place(connection).await?;
                    insert_on(client, connection, jobs, max_wait, false).await
                };
                Box::pin(inserting).await?
            }
            None if max_wait.is_none() && jobs.len() == 1 && jobs[0].parents.is_empty() => {
                insert_single(client, jobs).await?
            }
            None => Box::pin(insert_pooled(client, jobs, max_wait)).await?,
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

/// Inserts one job, together with others that come at the same time where that is possible.
async fn insert_single(client: &Client, jobs: Vec<NewJob>) -> Result<Vec<Inserted>> {
    let layered = LayeredJobs::new(client, jobs);
    let now = if layered.needs_clock() {
        let asking = async { store::database_time(&mut *client.connection().await?, client.statements()).await };
        Some(Box::pin(asking).await?)
    } else {
        None
    };
    let has_given_ids = layered.has_given_ids();
    let mut rows = layered.rows(now)?;
    if !has_given_ids && let Some(row) = rows.pop() {
        return Ok(vec![insert_shared(client, row).await?]);
    }
    let batch = FoldedBatch::fold(rows, has_given_ids);
    let sending = async {
        let mut connection = client.connection().await?;
        let answers = send(client, &mut connection, batch, None, true).await;
        connection.settle(answers)
    };
    Box::pin(sending).await
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
    let layered = LayeredJobs::new(client, jobs);
    let now =
        if layered.needs_clock() { Some(store::database_time(connection, client.statements()).await?) } else { None };
    let has_given_ids = layered.has_given_ids();
    let edges = layered.edges()?;
    let batch = FoldedBatch::fold(layered.rows(now)?, has_given_ids).with_edges(edges);
    send(client, connection, batch, max_wait, is_own).await
}
