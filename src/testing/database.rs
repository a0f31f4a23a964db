//! A database for one test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgPool};
use uuid::Uuid;

use super::server::Server;
use crate::client::{Client, ClientBuilder};
use crate::error::Result;
use crate::store::{self, Statements};
use crate::words::ident::SchemaName;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A migrated database of the test's own, which is removed when it is dropped.
///
/// ```
/// use serde_json::json;
/// use uniqueue::{NewJob, testing};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = testing::Database::new().await?;
/// let job = database.client().insert(NewJob::new("ping", &json!({}))).await?;
/// assert!(!job.duplicate);
/// # Ok(()) }
/// ```
///
/// Without `DATABASE_URL`, the first test of the process [starts](crate::embedded) a server, which all its tests share. Its
/// data are in [memory](crate::embedded::PostgresBuilder::in_memory) where there is room; `TMPDIR` keeps them elsewhere.
/// Each test gets a *database* of its own, copied from a migrated template within 100 ms. The queue is in the schema
/// `uniqueue`, so SQL reads as it does in production, and the application's own tables can be made beside it.
///
/// With `DATABASE_URL`, each test gets a database of its own on that server, named `uniqueue_test_…` and made from
/// `template1`. Tables and extensions of the database that the URL names are not in it. Making, migrating and dropping it
/// takes about half a second.
///
/// Where the role of `DATABASE_URL` may not create databases, a warning is logged. Then each test gets a *schema* of such
/// a name in the URL's database, and a second one, `…_app`, for the application's own tables. Every connection of
/// [`Database::pool`] and [`Database::url`] has both on its `search_path`, so the test's own SQL should name tables without
/// a schema. A client of the application's own needs the [schema](Database::schema): without it, it works with the queue
/// `uniqueue` of that database, which may be the developer's.
///
/// Dropping a `Database` removes it from the server. Databases of a process that was killed are removed a day later, by
/// the next test run.
///
/// Works with `cargo test` and nextest, on a current-thread and on a multi-thread runtime.
#[derive(Debug)]
#[must_use = "the database is removed when this is dropped"]
pub struct Database {
    client: Client,
    url: String,
    name: String,
    server: &'static Server,
}

impl Database {
    /// A database of the test's own, with a pool of up to 10 connections.
    ///
    /// # Errors
    ///
    /// As for the [server's start](crate::embedded::Postgres::start), and
    /// [`Error::Database`](crate::Error::Database) when the server of `DATABASE_URL` cannot be reached, or its role may
    /// create neither a database nor a schema.
    pub async fn new() -> Result<Self> {
        Self::with(Client::builder()).await
    }

    /// The same, with a client of these options. Their schema does not count.
    ///
    /// # Errors
    ///
    /// As for [`Database::new`].
    pub async fn with(options: ClientBuilder) -> Result<Self> {
        let server = Server::of_process().await?;
        let name = unique_name();
        let (schema, url) = if server.has_schemas {
            let mut connection = server.connect().await?;
            store::create_schema(&mut connection, &application_schema(&name)).await?;
            connection.close().await?;
            (SchemaName::new(&name)?, url_in_schemas(&server.url, &name))
        } else {
            server.create_database(&name).await?;
            (SchemaName::default(), url_of_database(&server.url, &name))
        };
        let address = options.with_settings(url.parse()?);
        let pool = PgPoolOptions::new().max_connections(options.pool_size()).connect_lazy_with(address);
        let client = options.schema(schema).pool(pool);
        // From here on it is removed, also when the migration fails.
        let database = Database { client, url, name, server };
        if server.is_given {
            database.client.migrate().await?;
        }
        Ok(database)
    }

    /// The client. The client, its clones and its pool fail after the `Database` is dropped.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The client's pool.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        self.client.pool()
    }

    /// The schema of the queue: `uniqueue`, or one of the test's own where `DATABASE_URL`'s role may not
    /// create databases.
    #[must_use]
    pub fn schema(&self) -> &SchemaName {
        self.client.schema()
    }

    /// The URL of the database: for another process, or `psql`. The queue is in the schema [`Database::schema`] there.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Lets time pass: see [`advance`](super::advance).
    ///
    /// # Errors
    ///
    /// As for [`advance`](super::advance).
    pub async fn advance(&self, by: Duration) -> Result<super::Advanced> {
        super::advance(&self.client, by).await
    }
}

impl AsRef<Client> for Database {
    fn as_ref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server, std::mem::take(&mut self.name));
        let schema = self.schema().clone();
        // The test's runtime may be gone, or busy with this very drop.
        let spawned = thread::Builder::new().name("drop a test database".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let removed = runtime
                .map_err(sqlx::Error::Io)
                .map_err(Into::into)
                .and_then(|runtime| runtime.block_on(remove(server, &name, schema)));
            if let Err(error) = removed {
                tracing::warn!(name, %error, "test database not removed");
            }
        });
        // An embedded server is removed with the process at the latest. On another server, wait for the removal.
        if server.is_given
            && let Ok(thread) = spawned
        {
            let _ = thread.join();
        }
    }
}

async fn remove(server: &Server, name: &str, schema: SchemaName) -> Result<()> {
    let mut connection = server.connect().await?;
    if server.has_schemas {
        // The test's connections may hold locks, and the test that would release them has ended.
        let application = application_schema(name);
        Statements::new(schema).over(&mut connection).end_connections(name, &application).await?;
        for schema in [name, &application] {
            store::drop_schema(&mut connection, schema).await?;
        }
    } else {
        store::drop_database(&mut connection, name).await?;
    }
    connection.close().await?;
    Ok(())
}

fn application_schema(name: &str) -> String {
    format!("{name}_app")
}

/// A name that no other test has, in this process or in another. The time is in it, so that databases of killed processes
/// can be told from those in use.
fn unique_name() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // The low bits of a UUIDv7 are random. The count tells names of one moment apart.
    let random = Uuid::now_v7().as_u128() & 0xffff_ffff;
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("uniqueue_test_{seconds:010}_{random:08x}_{count}")
}

/// The URL with the test's schemas first on the search path, and its name on every connection.
fn url_in_schemas(url: &str, name: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    let application = application_schema(name);
    format!("{url}{separator}application_name={name}&options=-csearch_path%3D{application}%2C{name}%2Cpublic")
}

/// The URL with another database in place of its own.
fn url_of_database(url: &str, name: &str) -> String {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgres", address));
    let host = rest.split('/').next().unwrap_or_default();
    // `dbname` would override the path.
    let query: Vec<_> = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("dbname=")).collect();
    let separator = if query.is_empty() { "" } else { "?" };
    format!("{scheme}://{host}/{name}{separator}{}", query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_s_url_names_its_database_or_its_schemas() {
        let embedded = "postgres://postgres@localhost:5432/postgres?host=%2Ftmp%2Fx";
        assert_eq!(url_of_database(embedded, "a_1"), "postgres://postgres@localhost:5432/a_1?host=%2Ftmp%2Fx");
        for (given, expected) in [
            ("postgres://app:secret@db:5432/app", "postgres://app:secret@db:5432/a_1"),
            ("postgresql://db?sslmode=require", "postgresql://db/a_1?sslmode=require"),
            ("postgres:///app?host=/tmp&dbname=app&user=app", "postgres:///a_1?host=/tmp&user=app"),
        ] {
            assert_eq!(url_of_database(given, "a_1"), expected);
        }
        let given = url_in_schemas("postgres://app@db/app", "a_1");
        assert_eq!(given, "postgres://app@db/app?application_name=a_1&options=-csearch_path%3Da_1_app%2Ca_1%2Cpublic");
        assert!(url_in_schemas("postgres://app@db/app?sslmode=require", "a").contains("?sslmode=require&"));
    }

    #[test]
    fn names_differ_and_fit_into_a_schema_name() {
        let (first, second) = (unique_name(), unique_name());
        assert_ne!(first, second);
        assert!(SchemaName::new(&first).is_ok(), "{first}");
        assert!(application_schema(&first).len() <= 63);
    }
}
