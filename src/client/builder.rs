//! Making a client.

use std::sync::{Arc, Once};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};

use super::connections::place_guard::PlaceGuard;
use super::connections::time_limit;
use super::events::{Bus, EVENT_BUFFER};
use super::history::{HistoryCounter, INTERVAL};
use super::insert::{Coalescer, InsertLayers, InsertMiddleware};
use super::wait::Waiters;
use super::{Client, Inner};
use crate::error::{Error, Result};
use crate::metrics;
use crate::store::{self, PlaceIdentity, Statements};
use crate::words::ident::SchemaName;
use crate::words::opts::InsertOptions;

/// The most bytes of a job's args as JSON text, unless the client has another limit.
const MAX_ARGS_BYTES: usize = 1 << 20;

/// How long a call waits for a connection, unless the client has another limit.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a call waits for a connection to a place, unless the client has another limit.
const PLACE_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes a [`Client`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ClientBuilder {
    schema: SchemaName,
    defaults: InsertOptions,
    max_args_bytes: Option<usize>,
    max_connections: Option<u32>,
    event_buffer: Option<usize>,
    history_interval: Option<Duration>,
    insert_middleware: InsertLayers,
    connect_timeout: Option<Duration>,
    settings: Vec<(String, String)>,
}

impl ClientBuilder {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The schema that holds the queue. Default: `uniqueue`.
    pub fn schema(mut self, schema: SchemaName) -> Self {
        self.schema = schema;
        self
    }

    /// The options of every insert, behind those of the call and of the kind. An id among
    /// them is left out: it can be one job's only.
    pub fn defaults(mut self, defaults: InsertOptions) -> Self {
        self.defaults = InsertOptions { id: None, ..defaults };
        self
    }

    /// The most bytes of a job's args as JSON text. An insert of more is [`Error::InvalidJson`](crate::Error::InvalidJson). Default: 1,048,576 (1 MiB).
    ///
    /// A worker receives its jobs in batches, so large args take memory many times over. Keep large payloads elsewhere,
    /// and put a reference into the args. `insert_job` in SQL has the same limit, and the setting
    /// `uniqueue.max_args_bytes` of the session, the role or the database to change it.
    pub fn max_args_bytes(mut self, bytes: usize) -> Self {
        self.max_args_bytes = Some(bytes);
        self
    }

    /// The most connections of a pool that the client opens itself. Default: 10.
    pub fn max_connections(mut self, max_connections: u32) -> Self {
        self.max_connections = Some(max_connections);
        self
    }

    /// How long a call waits for a connection of a pool that the client opens itself. Default: 30 s, and 10 s for the clients of
    /// [`Places`](crate::Places), whose places count as down then.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = Some(connect_timeout);
        self
    }

    /// Settings of every session of a pool that the client opens itself, such as `statement_timeout`, beside those of the URL.
    pub fn settings<N: Into<String>, V: Into<String>>(mut self, settings: impl IntoIterator<Item = (N, V)>) -> Self {
        self.settings.extend(settings.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Runs an [`InsertMiddleware`] around every insert. Several nest in the order in which they are
    /// added: the first is the outermost.
    pub fn insert_middleware(mut self, middleware: impl InsertMiddleware) -> Self {
        self.insert_middleware.0.push(Arc::new(middleware));
        self
    }

    /// How many events a subscriber of [`Client::events`] may be behind before it loses the oldest.
    /// Default: 8,192. The memory is taken when the first one subscribes.
    pub fn event_buffer(mut self, events: usize) -> Self {
        self.event_buffer = Some(events);
        self
    }

    /// How often the client writes what it counted for the history, where it counted anything: 1 second to 1 minute.
    /// Default: 1 minute.
    pub fn history_interval(mut self, interval: Duration) -> Self {
        self.history_interval = Some(interval);
        self
    }

    /// A client on a pool of the application's own.
    #[must_use]
    pub fn pool(self, pool: PgPool) -> Client {
        let statements = Statements::new(self.schema.clone());
        self.build(pool, statements, None, false)
    }

    fn build(self, pool: PgPool, statements: Statements, place: Option<Arc<PlaceGuard>>, is_own_pool: bool) -> Client {
        metrics::describe();
        let inner = Inner {
            pool,
            is_own_pool,
            statements,
            place,
            defaults: self.defaults,
            max_args_bytes: self.max_args_bytes.unwrap_or(MAX_ARGS_BYTES),
            insert_middleware: self.insert_middleware,
            coalescer: Coalescer::default(),
            newer_schema: Once::new(),
            waiters: Waiters::default(),
            history: HistoryCounter::new(self.history_interval.unwrap_or(INTERVAL)),
            bus: Bus::new(self.event_buffer.unwrap_or(EVENT_BUFFER)),
        };
        Client { inner: Arc::new(inner) }
    }

    /// A client with a pool of its own. Its sessions are called `uniqueue`, unless the URL has an `application_name`
    /// or the environment a `PGAPPNAME`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`] for a URL that cannot be read or names several hosts, [`Error::Connect`] when nothing answers
    /// there within ten seconds, or the server refuses the connection.
    pub async fn connect(self, url: &str) -> Result<Client> {
        let options = self.with_settings(Client::connect_options(url)?);
        // A pool would try a refused connection again until its timeout; a wrong URL should be
        // told at once.
        let connection = time_limit::connect(&options).await.map_err(|error| match error {
            Error::Database(source) => Error::cannot_connect(&options, source),
            other => other,
        });
        connection?.close().await?;
        let limit = self.connect_timeout.unwrap_or(CONNECTION_TIMEOUT);
        let pool = self.own_pool(None).acquire_timeout(limit).connect_lazy_with(options);
        let statements = Statements::new(self.schema.clone());
        Ok(self.build(pool, statements, None, true))
    }

    /// The client of a place, with a pool that opens its first connection when it is asked for one.
    pub(crate) fn of_place(self, options: PgConnectOptions, identity: PlaceIdentity) -> Client {
        let (options, limit) = (self.with_settings(options), self.connect_timeout.unwrap_or(PLACE_TIMEOUT));
        let statements = Statements::new(self.schema.clone());
        let guard = Arc::new(PlaceGuard::new(identity, statements.clone(), limit));
        let asked = Arc::clone(&guard);
        let pool = self.own_pool(Some(Arc::clone(&guard))).acquire_timeout(limit);
        let pool = pool.after_connect(move |connection, _| {
            let asked = Arc::clone(&asked);
            // A connection that is elsewhere is refused when it is handed out, with an error that says so.
            Box::pin(async move { asked.look(connection).await.map(|_| ()) })
        });
        self.build(pool.connect_lazy_with(options), statements, Some(guard), true)
    }

    /// The options of a pool's connections.
    pub(crate) fn with_settings(&self, options: PgConnectOptions) -> PgConnectOptions {
        options.options(self.settings.iter().map(|(name, value)| (name, value)))
    }

    /// The most connections of the pool.
    pub(crate) fn pool_size(&self) -> u32 {
        self.max_connections.unwrap_or(10)
    }

    fn own_pool(&self, place: Option<Arc<PlaceGuard>>) -> PgPoolOptions {
        time_limit::checking_returns(PgPoolOptions::new())
            .max_connections(self.pool_size())
            // The check below is a ping as well.
            .test_before_acquire(false)
            .before_acquire(move |connection, metadata| Box::pin(is_usable(connection, place.clone(), metadata.age)))
    }
}

/// Whether an idle connection may be used again: it answers in time, no transaction is open on it, and it is in the place.
async fn is_usable(connection: &mut PgConnection, place: Option<Arc<PlaceGuard>>, age: Duration) -> sqlx::Result<bool> {
    let asking = async {
        let is_free = !store::has_open_transaction(connection).await?;
        match place {
            Some(place) if is_free => place.is_usable(connection, age).await,
            _ => Ok(is_free),
        }
    };
    match tokio::time::timeout(time_limit::CHECK_TIMEOUT, asking).await {
        Ok(Ok(is_usable)) => Ok(is_usable),
        Ok(Err(error)) => {
            tracing::debug!(%error, "an idle connection does not answer any more");
            Ok(false)
        }
        // With an error the pool drops the connection. Closing it would wait for the other end again.
        Err(_) => Err(sqlx::Error::PoolTimedOut),
    }
}
