//! The run's cluster, and the databases that tests get: copies of a migrated template, dropped when their test ends.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use tokio::sync::{Mutex, OnceCell};
use uniqueue::embedded::Postgres;
use uniqueue::{Client, SchemaName};

/// The schema of the queue in each of these databases. It is not the default, which statements must not name.
pub(crate) const SCHEMA: &str = "test_schema";

static CLUSTER: OnceCell<Postgres> = OnceCell::const_new();
/// The schemas that have a template.
static TEMPLATES: Mutex<BTreeSet<String>> = Mutex::const_new(BTreeSet::new());
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
        Self { name: create_migrated(SCHEMA).await }
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

/// The same with a migrated schema: a copy of the schema's template, which the first test that asks makes.
pub(crate) async fn create_migrated(schema: &str) -> String {
    let template = format!("template_{schema}");
    let mut made = TEMPLATES.lock().await;
    if !made.contains(schema) {
        execute(format!("CREATE DATABASE {template}")).await.expect(&template);
        let pool = PgPool::connect(&url_of(&template).await).await.expect("a pool");
        let name = SchemaName::new(schema).expect("a schema name");
        Client::builder().schema(name).pool(pool.clone()).migrate().await.expect("a migration");
        pool.close().await;
        made.insert(schema.to_owned());
    }
    drop(made);
    create(&format!("TEMPLATE {template}")).await
}

async fn execute(statement: String) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(url().await).await?;
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}
