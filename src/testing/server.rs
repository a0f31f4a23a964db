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
    Given { url: String, share: Share },
    /// One of our own, with a migrated template database.
    #[cfg(unix)]
    Embedded(Postgres),
}

/// What each test gets of a server that is not ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Share {
    Database,
    /// Where the role may not create databases.
    Schemas,
}

impl Server {
    /// The server of this process, started by the first test that asks. It does not depend on that
    /// test's runtime.
    pub(super) async fn of_process() -> Result<&'static Self> {
        SERVER.get_or_try_init(Self::find_or_start).await
    }

    async fn find_or_start() -> Result<Self> {
        match env::var("DATABASE_URL") {
            Ok(url) if !url.trim().is_empty() => Self::given(url).await,
            Ok(_) | Err(env::VarError::NotPresent) => Self::start().await,
            Err(env::VarError::NotUnicode(_)) => Err(Error::InvalidUrl {
                problem: "DATABASE_URL is not unicode: percent-encode what is not ASCII".to_owned(),
            }),
        }
    }

    async fn given(url: String) -> Result<Self> {
        let statements = Statements::new(SchemaName::default());
        let mut connection = PgConnection::connect_with(&options(&url)?).await?;
        let share = if store::may_create_databases(&mut connection, &statements).await? {
            Share::Database
        } else {
            tracing::warn!(
                "the role of DATABASE_URL may not create databases: each test gets schemas of its own instead, and a \
                 client that does not name its schema works with the queue that is there\nhint: ALTER ROLE … CREATEDB"
            );
            Share::Schemas
        };
        if let Err(error) = sweep(&mut connection, &statements).await {
            tracing::warn!(%error, "could not look for what killed tests have left");
        }
        connection.close().await?;
        Ok(Self::Given { url, share })
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

    pub(super) fn url(&self) -> &str {
        match self {
            Self::Given { url, .. } => url,
            #[cfg(unix)]
            Self::Embedded(postgres) => postgres.url(),
        }
    }

    fn options(&self) -> Result<PgConnectOptions> {
        options(self.url())
    }

    /// A connection to the server, for making and dropping.
    pub(super) async fn connect(&self) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.options()?).await?)
    }

    /// Makes a database: on a server of our own it is migrated already.
    pub(super) async fn create_database(&self, name: &str) -> Result<()> {
        let template = match self {
            Self::Given { .. } => None,
            #[cfg(unix)]
            Self::Embedded(_) => Some(TEMPLATE),
        };
        let mut connection = self.connect().await?;
        let mut tries = 0;
        loop {
            match store::create_database(&mut connection, name, template).await {
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

fn options(url: &str) -> Result<PgConnectOptions> {
    url.parse().map_err(|error: sqlx::Error| Error::InvalidUrl { problem: error.to_string() })
}

/// Drops what killed test runs have left on a server that is not ours to throw away. No test fails for it.
async fn sweep(connection: &mut PgConnection, statements: &Statements) -> Result<()> {
    for (name, is_database) in store::left_behind(connection, statements).await? {
        let dropped = match is_database {
            true => store::drop_database(connection, &name).await,
            false => store::drop_schema(connection, &name).await,
        };
        // One that stays must not keep the others.
        if let Err(error) = dropped {
            tracing::warn!(name, %error, "what a killed test has left is still there");
        }
    }
    Ok(())
}
