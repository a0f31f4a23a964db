//! The server that all tests of a process share.

use std::env;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::OnceCell;

#[cfg(unix)]
use crate::embedded::Postgres;
use crate::error::{Error, Result};
use crate::ident::SchemaName;
use crate::store::{self, Statements};

/// What the migrated database is called that every test's is a copy of.
const TEMPLATE: &str = "uniqueue_template";

/// Many tests run at once, each with a pool of its own.
#[cfg(unix)]
const MAX_CONNECTIONS: u16 = 400;

static SERVER: OnceCell<Server> = OnceCell::const_new();

/// Where tests get their databases from. It lives in a `static`, so it is never dropped: an
/// embedded server goes when the process does.
#[derive(Debug)]
pub(super) enum Server {
    /// One that `DATABASE_URL` names.
    Given { url: String },
    /// One of our own, with a migrated template database.
    #[cfg(unix)]
    Embedded(Postgres),
}

impl Server {
    /// The server of this process, started by the first test that asks. It does not depend on that
    /// test's runtime.
    pub(super) async fn of_process() -> Result<&'static Self> {
        SERVER.get_or_try_init(Self::find_or_start).await
    }

    async fn find_or_start() -> Result<Self> {
        match env::var("DATABASE_URL") {
            Ok(url) if !url.trim().is_empty() => {
                let server = Self::Given { url };
                server.sweep().await;
                Ok(server)
            }
            Ok(_) | Err(env::VarError::NotPresent) => Self::start().await,
            Err(env::VarError::NotUnicode(_)) => Err(Error::InvalidUrl {
                problem: "DATABASE_URL is not unicode: percent-encode what is not ASCII".to_owned(),
            }),
        }
    }

    #[cfg(unix)]
    async fn start() -> Result<Self> {
        let postgres = Postgres::builder().max_connections(MAX_CONNECTIONS).start().await?;
        let server = Self::Embedded(postgres);
        let mut connection = server.connect().await?;
        store::create_database(&mut connection, TEMPLATE, None).await?;
        connection.close().await?;
        let mut template = PgConnection::connect_with(&server.options()?.database(TEMPLATE)).await?;
        store::migrate(&mut template, &Statements::new(SchemaName::default()), None).await?;
        template.close().await?;
        Ok(server)
    }

    #[cfg(not(unix))]
    async fn start() -> Result<Self> {
        Err(Error::InvalidUrl { problem: "set DATABASE_URL: servers of one's own are for Unix only".to_owned() })
    }

    /// Drops what killed test runs have left on a server that is not ours to throw away. No test
    /// fails for it.
    async fn sweep(&self) {
        let swept = async {
            let mut connection = self.connect().await?;
            for name in store::left_behind(&mut connection, &Statements::new(SchemaName::default())).await? {
                // One that stays must not keep the others.
                if let Err(error) = store::drop_schema(&mut connection, &name).await {
                    tracing::warn!(name, %error, "what a killed test has left is still there");
                }
            }
            connection.close().await?;
            Ok::<_, Error>(())
        };
        if let Err(error) = swept.await {
            tracing::warn!(%error, "could not look for what killed tests have left");
        }
    }

    pub(super) fn url(&self) -> &str {
        match self {
            Self::Given { url } => url,
            #[cfg(unix)]
            Self::Embedded(postgres) => postgres.url(),
        }
    }

    pub(super) fn options(&self) -> Result<PgConnectOptions> {
        self.url().parse().map_err(|error: sqlx::Error| Error::InvalidUrl { problem: error.to_string() })
    }

    /// A connection to the server, for making and dropping.
    pub(super) async fn connect(&self) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.options()?).await?)
    }

    /// A new database, migrated already.
    #[cfg(unix)]
    pub(super) async fn copy_template(&self, name: &str) -> Result<()> {
        let mut connection = self.connect().await?;
        let mut tries = 0;
        loop {
            match store::create_database(&mut connection, name, Some(TEMPLATE)).await {
                // Somebody is connected to the template: a connection that is closing, or autovacuum.
                Err(Error::Database(sqlx::Error::Database(error)))
                    if error.code().as_deref() == Some("55006") && tries < 100 =>
                {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                created => return created,
            }
        }
    }
}
