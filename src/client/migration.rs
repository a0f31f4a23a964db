//! Bringing the schema up to date.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use super::Client;
use super::connections::time_limit;
use crate::error::{AnswerFuture, Result};
use crate::store;

/// How often a migration begins because another process made an object first.
const MAX_TRIES: u32 = 5;

/// A migration of the schema, to be awaited. Made by [`Client::migration`]. It returns the migrations that
/// were applied.
///
/// # Errors
///
/// [`Error::NewerSchema`](crate::Error::NewerSchema) when a newer uniqueue migrated it to a version that this one may not use,
/// [`Error::IncompatibleSchema`](crate::Error::IncompatibleSchema) when another pre-release made it,
/// [`Error::Migration`](crate::Error::Migration) when the database
/// refuses, or the lock timeout ran out. Nothing is half done: it all runs in one transaction.
#[derive(Debug)]
#[must_use = "nothing is migrated until it is awaited"]
pub struct Migration<'a> {
    client: &'a Client,
    lock_timeout: Duration,
}

impl<'a> Migration<'a> {
    /// The longest wait for a lock of another transaction, after which the migration fails. While it waits, other
    /// sessions queue up behind it. Default: 30 s. At least 1 ms.
    pub fn lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout;
        self
    }

    /// Returns the migration as one script, to be run by hand: `BEGIN`, the statements, the rows of the history that
    /// record them, `COMMIT`. Empty: the schema is up to date. Nothing is changed.
    ///
    /// The script is for the schema as it is now. If a part of it has run meanwhile, it fails as a whole. In psql:
    /// `psql -v ON_ERROR_STOP=1 -f script.sql`.
    ///
    /// # Errors
    ///
    /// [`Error::NewerSchema`](crate::Error::NewerSchema), [`Error::Database`](crate::Error::Database).
    pub async fn sql(self) -> Result<String> {
        let Self { client, lock_timeout } = self;
        client.migration_sql(lock_timeout).await
    }

    /// Lists the migrations that the schema lacks, such as `V2 unique_jobs`, in the order in which they would be
    /// applied. Empty: it has all. Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`Error::NewerSchema`](crate::Error::NewerSchema), [`Error::Database`](crate::Error::Database).
    pub async fn waiting(self) -> Result<Vec<String>> {
        self.client.waiting_migrations().await
    }
}

impl<'a> IntoFuture for Migration<'a> {
    type Output = Result<Vec<String>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, lock_timeout } = self;
            // The look-up first, since its answer has a limit.
            let waiting = client.waiting_migrations().await?;
            if waiting.is_empty() {
                return Ok(waiting);
            }
            let limit = lock_timeout.saturating_add(time_limit::QUERY_TIMEOUT);
            let mut connection = client.connection().await?;
            let mut tries = 0;
            loop {
                tries += 1;
                let beginning = client.store(&mut connection).begin_migration(lock_timeout);
                let Some(begun) = time_limit::within(limit, beginning).await? else { return Ok(Vec::new()) };
                // Without a limit: to build an index on a large table takes its time.
                if let Some(applied) = begun.apply(tries == MAX_TRIES).await? {
                    return Ok(applied);
                }
            }
        })
    }
}

impl Client {
    /// Brings the schema to the version that this library needs, and creates it if it is missing. Any number of
    /// processes may call it at once. Returns the migrations that it applied. A schema of a newer version that this library may
    /// use is left unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::NewerSchema`](crate::Error::NewerSchema) when this library may not use its newer version,
    /// [`Error::Migration`](crate::Error::Migration) when the database refuses. Nothing is half done: it all runs in one transaction.
    pub async fn migrate(&self) -> Result<Vec<String>> {
        self.migration().await
    }

    /// As [`Client::migrate`], with options. Also returns its SQL, for a role that may not run it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// println!("{}", client.migration().sql().await?);
    /// client.migration().lock_timeout(Duration::from_secs(2)).await?;
    /// # Ok(()) }
    /// ```
    pub const fn migration(&self) -> Migration<'_> {
        Migration { client: self, lock_timeout: store::LOCK_TIMEOUT_OF_MIGRATION }
    }

    fn migration_sql(&self, lock_timeout: Duration) -> AnswerFuture<'_, String> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            let asking = self.store(&mut connection).migration_sql(lock_timeout);
            let script = time_limit::within(time_limit::QUERY_TIMEOUT, asking).await;
            Ok(connection.settle(script)?.unwrap_or_default())
        })
    }

    fn waiting_migrations(&self) -> AnswerFuture<'_, Vec<String>> {
        Box::pin(async {
            let mut connection = self.connection().await?;
            let asking = self.store(&mut connection).waiting_migrations();
            let waiting = time_limit::within(time_limit::QUERY_TIMEOUT, asking).await;
            connection.settle(waiting)
        })
    }
}
