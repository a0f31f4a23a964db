//! The run's cluster, and the databases that tests get: copies of a migrated template, dropped when their test ends.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use tokio::sync::OnceCell;
use uniqueue::embedded::Postgres;
use uniqueue::{Client, SchemaName};

/// The schema of the queue in each of these databases. It is not the default, which statements must not name.
pub(crate) const SCHEMA: &str = "test_schema";

const TEMPLATE: &str = "template_of_tests";

static CLUSTER: OnceCell<Postgres> = OnceCell::const_new();
static MIGRATED: OnceCell<()> = OnceCell::const_new();
static NEXT: AtomicU32 = AtomicU32::new(1);

/// The URL of the run's cluster, which is started by the first test that asks.
pub async fn url() -> &'static str {
    let cluster = CLUSTER
        .get_or_init(async || Postgres::builder().max_connections(400).start().await.expect("an embedded PostgreSQL"));
    cluster.await.url()
}

/// The URL of a database of the run's cluster.
pub(crate) async fn url_of(name: &str) -> String {
    url().await.replace("/postgres?", &format!("/{name}?"))
}

/// A database of the run's cluster, which is dropped with this value.
pub(crate) struct Scratch {
    pub(crate) name: String,
}

impl Scratch {
    /// A database with a migrated [`SCHEMA`].
    pub(crate) async fn migrated() -> Self {
        MIGRATED.get_or_init(migrate_template).await;
        Self::create(&format!("TEMPLATE {TEMPLATE}")).await
    }

    /// A database with these options of `CREATE DATABASE`.
    pub(crate) async fn create(options: &str) -> Self {
        Self { name: create(options).await }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // One thread drops them all: the test's runtime may be gone.
        static ENDED: LazyLock<Sender<String>> = LazyLock::new(|| {
            let (ended, names) = mpsc::channel();
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                for name in names {
                    if let Err(error) = runtime.block_on(execute(format!("DROP DATABASE {name} WITH (FORCE)"))) {
                        eprintln!("database {name} is not dropped: {error}");
                    }
                }
            });
            ended
        });
        let _ = ENDED.send(std::mem::take(&mut self.name));
    }
}

/// Creates a database that stays until the end of the run. Answers with its name.
pub(crate) async fn create(options: &str) -> String {
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    execute(format!("CREATE DATABASE {name} {options}")).await.expect(&name);
    name
}

async fn execute(statement: String) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(url().await).await?;
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}

async fn migrate_template() {
    execute(format!("CREATE DATABASE {TEMPLATE}")).await.expect(TEMPLATE);
    let pool = PgPool::connect(&url_of(TEMPLATE).await).await.expect("a pool");
    let schema = SchemaName::new(SCHEMA).expect("a schema name");
    Client::builder().schema(schema).pool(pool.clone()).migrate().await.expect("a migration");
    pool.close().await;
}
