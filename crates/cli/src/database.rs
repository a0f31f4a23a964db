//! The database that a command works with: the one it was given, or a throw-away server.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, Row};
use uniqueue::embedded::{Postgres, PostgresBuilder};
use uniqueue::{Client, Error};

use crate::args::QueueArguments;
use crate::failure::Failure;

/// Has the server end a query whose client is gone: a list of what is rare, given up with Ctrl-C, would otherwise go on
/// reading a large table to its end.
const WATCH_CLIENT: &str = "SET client_connection_check_interval = '1s'";

/// How long a database may take to answer the first time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A database that answers.
pub(crate) struct Database {
    pub(crate) client: Client,
    /// A connection beside the client's pool.
    pub(crate) connection: PgConnection,
    /// Where it is. It may hold a password.
    pub(crate) url: String,
    /// What PostgreSQL calls its version.
    pub(crate) version: String,
    /// The server, where it is ours.
    pub(crate) postgres: Option<Postgres>,
}

impl Database {
    /// Opens the database that was given.
    pub(crate) async fn open(queue: &QueueArguments, connections: u32) -> Result<Self, Failure> {
        match url(queue) {
            Some(url) => Self::connect(url, queue, connections, None).await,
            None => Err(Failure::refused(
                "no database given",
                "give --database-url or set DATABASE_URL; `uniqueue db start` runs a database",
            )),
        }
    }

    /// Opens the database that was given, and insists on a schema of the version that this uniqueue needs: what looks at
    /// jobs or changes them starts with this.
    pub(crate) async fn open_migrated(queue: &QueueArguments) -> Result<Self, Failure> {
        let database = Self::open(queue, 2).await?;
        database.client.check_schema().await?;
        Ok(database)
    }

    /// Opens the database that was given, else starts a throw-away server.
    pub(crate) async fn open_or_start(queue: &QueueArguments, connections: u32) -> Result<Self, Failure> {
        Self::open_or_start_as(queue, connections, Postgres::builder()).await
    }

    /// Opens the database that was given, else starts a server of this description.
    pub(crate) async fn open_or_start_as(
        queue: &QueueArguments,
        connections: u32,
        server: PostgresBuilder,
    ) -> Result<Self, Failure> {
        match url(queue) {
            Some(url) => Self::connect(url, queue, connections, None).await,
            None => {
                let postgres = server.start().await?;
                let url = postgres.url().to_owned();
                Self::connect(&url, queue, connections, Some(postgres)).await
            }
        }
    }

    async fn connect(
        url: &str,
        queue: &QueueArguments,
        connections: u32,
        postgres: Option<Postgres>,
    ) -> Result<Self, Failure> {
        // A pool tries again and again for half a minute; one connection says at once what is wrong.
        let connecting = connect_once(url);
        let connection = tokio::time::timeout(PATIENCE, connecting).await.map_err(|_| {
            Failure::refused(
                format!("the database does not answer within {PATIENCE:?}"),
                "check the URL's host and port",
            )
        })?;
        let mut connection = connection.map_err(explain)?;
        let version: String = sqlx::query("SHOW server_version").fetch_one(&mut connection).await?.try_get(0)?;
        // Debian's version goes on: 15.18 (Debian 15.18-0+deb12u1).
        let version = version.split(' ').next().unwrap_or_default().to_owned();
        let pool = PgPoolOptions::new().max_connections(connections).after_connect(|connection, _| {
            Box::pin(async move {
                // A server elsewhere may not be able to; then a query goes on after a Ctrl-C, as it would without.
                let _ = sqlx::query(WATCH_CLIENT).execute(connection).await;
                Ok(())
            })
        });
        let pool = pool.connect_lazy_with(connect_options(url)?);
        let client = Client::builder().schema(queue.schema.clone()).pool(pool);
        Ok(Self { client, connection, url: url.to_owned(), version, postgres })
    }

    /// Closes every connection, and answers with a new one.
    pub(crate) async fn reconnect(&mut self) -> Result<&mut PgConnection, Failure> {
        let pool = self.client.pool();
        let new = pool.connect_options().connect().await?;
        pool.close().await;
        // An old connection that does not close in order is gone as well.
        let _ = std::mem::replace(&mut self.connection, new).close().await;
        Ok(&mut self.connection)
    }

    /// Closes every connection, and ends the server if it is ours.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        self.client.pool().close().await;
        // The server ends every connection anyway; its pool has none left that could fail.
        let _ = self.connection.close().await;
        match self.postgres {
            Some(postgres) => Ok(postgres.stop().await?),
            None => Ok(()),
        }
    }
}

fn url(queue: &QueueArguments) -> Option<&str> {
    // Scripts unset a variable by setting it to nothing.
    queue.database_url.as_deref().filter(|url| !url.trim().is_empty())
}

/// Says what is to be done about a connection that could not be encrypted.
fn explain(error: Error) -> Failure {
    let hint = match cfg!(feature = "tls") {
        true => "check the server's certificate, or the URL's sslmode",
        false => "this command was built without TLS: install it with `--features tls`",
    };
    match error {
        Error::Database(sqlx::Error::Tls(error)) => Failure::refused(format!("cannot encrypt: {error}"), hint),
        error => error.into(),
    }
}

async fn connect_once(url: &str) -> Result<PgConnection, Error> {
    Ok(connect_options(url)?.connect().await?)
}

fn connect_options(url: &str) -> Result<PgConnectOptions, Error> {
    let problem = if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        match PgConnectOptions::from_str(url) {
            Ok(options) => return Ok(options.application_name("uniqueue")),
            Err(error) => error.to_string(),
        }
    } else {
        "it must start with postgres:// or postgresql://".to_owned()
    };
    Err(Error::InvalidUrl { problem })
}
