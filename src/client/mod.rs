//! The client: inserts jobs, looks at them, and is what a runner works with.

mod actor;
mod builder;
mod call;
mod change;
pub(crate) mod connections;
mod events;
mod explain;
pub(crate) mod history;
mod insert;
mod jobs;
mod kinds;
#[cfg(feature = "migrate")]
mod migration;
#[cfg(feature = "periodic")]
mod periodic;
mod place;
mod queues;
mod subscribe;
mod testing_clock;
mod wait;

use std::sync::{Arc, Once};

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

pub use self::builder::ClientBuilder;
pub use self::call::Call;
pub use self::change::Change;
pub use self::events::Events;
pub use self::explain::Explanation;
pub use self::insert::{Insert, InsertMany, InsertMiddleware, NextInsert};
pub use self::kinds::policies_of_kind;
#[cfg(feature = "migrate")]
pub use self::migration::Migration;
pub use self::queues::Queue;
pub use self::subscribe::publish_cancelled;
pub use self::wait::Wait;

use self::connections::place_guard::PlaceGuard;
use self::connections::pooled_connection::PooledConnection;
use self::history::HistoryCounter;
use self::insert::{AnyInsertMiddleware, Coalescer, InsertLayers};
use self::wait::Waiters;
use crate::error::{AnswerFuture, Result};
use crate::store::{self, Pooling, Statements, Store};
use crate::words::ident::{JobId, SchemaName};
use crate::words::job::{JobRow, NewJob};
use crate::words::opts::InsertOptions;

/// A handle on one queue: a connection pool and a schema. Cheap to clone.
///
/// ```no_run
/// # async fn run() -> uniqueue::Result<()> {
/// let client = uniqueue::Client::connect("postgres://localhost/app").await?;
/// client.migrate().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

impl AsRef<Client> for Client {
    fn as_ref(&self) -> &Client {
        self
    }
}

#[derive(Debug)]
struct Inner {
    pool: PgPool,
    /// Whether the pool hands out only connections at rest.
    is_own_pool: bool,
    statements: Statements,
    defaults: InsertOptions,
    max_args_bytes: usize,
    bus: events::Bus,
    /// `None`: the client is for no place.
    place: Option<Arc<PlaceGuard>>,
    history: HistoryCounter,
    insert_middleware: InsertLayers,
    coalescer: Coalescer,
    waiters: Waiters,
    /// Says once that the schema is newer.
    newer_schema: Once,
}

impl Client {
    /// Connects to a database and uses its schema `uniqueue`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`](crate::Error::InvalidUrl) for a URL that cannot be read,
    /// [`Error::Database`](crate::Error::Database) when nothing answers there.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder().connect(url).await
    }

    /// A client on a pool of the application's own, for its schema `uniqueue`.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self::builder().pool(pool)
    }

    /// A client with another schema, or with insert defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    /// Inserts a job. Await it as it is, or set options first:
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use uniqueue::{Client, Job};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(kind = "rebuild_index")]
    /// # struct RebuildIndex {}
    /// # async fn run(client: Client, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
    /// let inserted = client.insert(RebuildIndex {}).priority(5).await?;
    ///
    /// // In your own transaction: it exists when, and only when, your transaction commits.
    /// let mut tx = pool.begin().await?;
    /// client.insert(RebuildIndex {}).tx(&mut tx).await?;
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// See [`Insert`] for the options and the errors.
    pub fn insert(&self, job: impl Into<NewJob>) -> Insert<'_> {
        Insert::new(self, job.into())
    }

    /// Inserts any number of jobs, of any mix of kinds, all or nothing, in one statement.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, NewJob, UniqueKey};
    /// # use serde_json::json;
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let inserted = client
    ///     .insert_many((0..1000).map(|n| NewJob::new("resize", &json!({"image": n}))))
    ///     .await?;
    /// assert_eq!(inserted.len(), 1000);
    /// # Ok(()) }
    /// ```
    ///
    /// See [`InsertMany`] for what a batch means.
    pub fn insert_many<I>(&self, jobs: I) -> InsertMany<'_>
    where
        I: IntoIterator,
        I::Item: Into<NewJob>,
    {
        InsertMany::new(self, jobs.into_iter().map(Into::into).collect())
    }

    /// One job, if it exists.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn job(&self, id: impl Into<JobId>) -> Call<'_, Option<JobRow>> {
        let id = id.into();
        Call::new(self, move |client, connection| Box::pin(client.store(connection).job_by_id(id)))
    }

    /// The database's time: the clock that decides everything here. Ages are told against it, and not
    /// against the clock of this machine.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn database_time(&self) -> Call<'_, OffsetDateTime> {
        Call::new(self, |client, connection| Box::pin(client.store(connection).database_time()))
    }

    /// The job that claims a unique key now, if one does.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn holder(&self, unique_key: &str) -> Call<'_, Option<JobRow>> {
        let key = unique_key.to_owned();
        Call::new(self, move |client, connection| Box::pin(async move { client.store(connection).holder(&key).await }))
    }

    /// The connection pool.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.inner.pool
    }

    /// A client over a pool of its own, of at most this many connections with the options of this client's, opened when they are
    /// needed: for reads that must not take the connections of work. It has none of this client's defaults and middleware.
    #[must_use]
    pub fn with_own_pool(&self, connections: u32) -> Self {
        let options = self.pool().options().clone().min_connections(0).max_connections(connections);
        let pool = options.connect_lazy_with(self.pool().connect_options().as_ref().clone());
        Self::builder().schema(self.schema().clone()).pool(pool)
    }

    /// The schema that holds the queue.
    #[must_use]
    pub fn schema(&self) -> &SchemaName {
        self.inner.statements.schema()
    }

    /// Every statement that this client can send, by name, as rendered for its schema: for tools
    /// that prepare or explain them.
    pub fn statements_text(&self) -> Vec<(&'static str, String)> {
        (self.statements().all().into_iter()).map(|(name, text)| (name, text.as_str().to_owned())).collect()
    }

    /// Which pooler stands between the client and the database, by two connections that are open at once.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    #[doc(hidden)]
    pub async fn pooling(&self, one: &mut PgConnection, other: &mut PgConnection) -> Result<Pooling> {
        store::pooling(one, other, self.statements()).await
    }

    pub(crate) fn statements(&self) -> &Statements {
        &self.inner.statements
    }

    /// A store that sends the statements of the client's schema over the connection.
    pub(crate) fn store<'c>(&'c self, connection: &'c mut PgConnection) -> Store<'c> {
        self.statements().over(connection)
    }

    fn coalescer(&self) -> &Coalescer {
        &self.inner.coalescer
    }

    fn waiters(&self) -> &Waiters {
        &self.inner.waiters
    }

    fn insert_middleware(&self) -> &[Arc<dyn AnyInsertMiddleware>] {
        &self.inner.insert_middleware.0
    }

    pub(crate) fn max_args_bytes(&self) -> usize {
        self.inner.max_args_bytes
    }

    pub(crate) fn defaults(&self) -> &InsertOptions {
        &self.inner.defaults
    }

    /// A connection of the pool on which what is sent is a transaction by itself.
    pub(crate) fn connection(&self) -> AnswerFuture<'_, PooledConnection> {
        Box::pin(self.acquire())
    }

    async fn acquire(&self) -> Result<PooledConnection> {
        loop {
            let mut connection = match &self.inner.place {
                Some(_) => connections::pooled_connection::acquire_of_place(&self.inner.pool).await?,
                None => connections::pooled_connection::acquire(&self.inner.pool, self.inner.is_own_pool).await?,
            };
            // The client's own pool checks connections itself.
            if self.inner.is_own_pool {
                if let Err(error) = self.check_place(&mut connection).await {
                    connection.close_on_drop();
                    return Err(error);
                }
                return Ok(PooledConnection::new(connection, true));
            }
            match tokio::time::timeout(
                connections::time_limit::CHECK_TIMEOUT,
                store::has_open_transaction(&mut connection),
            )
            .await
            {
                Ok(Ok(false)) => return Ok(PooledConnection::new(connection, false)),
                Ok(Ok(true)) => tracing::warn!("closed a connection with a transaction that was left open"),
                Ok(Err(error)) => {
                    connection.close_on_drop();
                    return Err(error.into());
                }
                Err(_) => {
                    tracing::warn!("closed a connection that did not answer in time");
                    drop(connection.detach());
                    continue;
                }
            }
            connection.close_on_drop();
        }
    }
}
