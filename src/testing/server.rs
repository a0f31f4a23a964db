//! The server that all tests of a process share.

use std::env;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::OnceCell;

#[cfg(unix)]
use crate::embedded::Postgres;
use crate::error::{Error, Result};
use crate::store::{self, Statements};
use crate::words::ident::SchemaName;

/// The migrated database of which every test gets a copy.
const TEMPLATE: &str = "uniqueue_template";

/// Many tests run at once, each with a pool of its own.
#[cfg(unix)]
const MAX_CONNECTIONS: u16 = 400;

static SERVER: OnceCell<Server> = OnceCell::const_new();

/// The server of the tests' databases. It lives in a `static`, so it is never dropped: the end of the process stops an
/// embedded server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) url: String,
    /// Whether it is the server of `DATABASE_URL`. An embedded server has a migrated template database.
    pub(super) is_given: bool,
    /// Whether each test has schemas and no database, since the role may not create databases.
    pub(super) has_schemas: bool,
    #[cfg(unix)]
    _embedded: Option<Postgres>,
}

impl Server {
    /// The server of this process, which the first test starts. It does not depend on that test's
    /// runtime.
    pub(super) async fn of_process() -> Result<&'static Self> {
        SERVER.get_or_try_init(Self::find_or_start).await
    }

    async fn find_or_start() -> Result<Self> {
        match env::var("DATABASE_URL") {
            Ok(url) if !url.trim().is_empty() => Self::given(url).await,
            Ok(_) | Err(env::VarError::NotPresent) => Self::start().await,
            Err(env::VarError::NotUnicode(_)) => Err(Error::InvalidUrl {
                problem: "DATABASE_URL is not unicode: percent-encode the bytes that are not ASCII".to_owned(),
            }),
        }
    }

    async fn given(url: String) -> Result<Self> {
        let statements = Statements::new(SchemaName::default());
        let mut connection = PgConnection::connect_with(&options(&url)?).await?;
        let has_schemas = !statements.over(&mut connection).may_create_databases().await?;
        if has_schemas {
            tracing::warn!(
                "the role of DATABASE_URL may not create databases: each test gets schemas of its own instead, and a \
                 client without the test's schema works with the queue of that database; hint: ALTER ROLE … CREATEDB"
            );
        }
        if let Err(error) = drop_left_behind(&mut connection, &statements).await {
            tracing::warn!(%error, "could not search for databases of killed tests");
        }
        connection.close().await?;
        Ok(Self {
            url,
            is_given: true,
            has_schemas,
            #[cfg(unix)]
            _embedded: None,
        })
    }

    #[cfg(unix)]
    async fn start() -> Result<Self> {
        let postgres = Postgres::builder().max_connections(MAX_CONNECTIONS).in_memory().start().await?;
        let url = postgres.url().to_owned();
        let server = Self { url, is_given: false, has_schemas: false, _embedded: Some(postgres) };
        let mut connection = server.connect().await?;
        store::create_database(&mut connection, TEMPLATE, None).await?;
        connection.close().await?;
        let mut template = PgConnection::connect_with(&options(&server.url)?.database(TEMPLATE)).await?;
        let (statements, lock_timeout) = (Statements::new(SchemaName::default()), store::LOCK_TIMEOUT_OF_MIGRATION);
        if let Some(migration) = statements.over(&mut template).begin_migration(lock_timeout).await? {
            migration.apply(true).await?;
        }
        template.close().await?;
        Ok(server)
    }

    #[cfg(not(unix))]
    async fn start() -> Result<Self> {
        Err(Error::InvalidUrl { problem: "set DATABASE_URL: embedded servers run on Unix only".to_owned() })
    }

    /// A connection to the server, to create and drop databases.
    pub(super) async fn connect(&self) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&options(&self.url)?).await?)
    }

    /// Creates a database. On an embedded server it is migrated already.
    pub(super) async fn create_database(&self, name: &str) -> Result<()> {
        let template = (!self.is_given).then_some(TEMPLATE);
        let mut connection = self.connect().await?;
        let mut tries = 0;
        loop {
            match store::create_database(&mut connection, name, template).await {
                // The template is in use, by a connection that is closing or by autovacuum.
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
    crate::Client::connect_options(url)
}

/// Drops databases and schemas of killed test runs on the server of `DATABASE_URL`. A failure fails no test.
async fn drop_left_behind(connection: &mut PgConnection, statements: &Statements) -> Result<()> {
    for (name, is_database) in statements.over(connection).left_behind().await? {
        let dropped = match is_database {
            true => store::drop_database(connection, &name).await,
            false => store::drop_schema(connection, &name).await,
        };
        // A failure must not keep the others.
        if let Err(error) = dropped {
            tracing::warn!(name, %error, "database or schema of a killed test not dropped");
        }
    }
    Ok(())
}
