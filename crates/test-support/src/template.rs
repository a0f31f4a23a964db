//! The databases of tests: copies of a migrated template.
//!
//! The databases of the testing kit have the queue in the default schema. These have it in another schema, so a statement that
//! names the default schema fails.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use tokio::sync::Mutex;
use uniqueue::{Client, NewJob, SchemaName};

use crate::server::{url, url_of};

/// The schema of the queue in the databases of tests.
pub(crate) const SCHEMA: &str = "test_schema";

/// A second queue in each of these databases, with a job that no test knows.
const SECOND_SCHEMA: &str = "second_schema";

/// The schemas that have a template.
static TEMPLATES: Mutex<BTreeSet<String>> = Mutex::const_new(BTreeSet::new());
static NEXT: AtomicU32 = AtomicU32::new(1);

/// A database that is dropped with this value.
pub(crate) struct TemporaryDatabase {
    pub(crate) name: String,
}

impl Drop for TemporaryDatabase {
    fn drop(&mut self) {
        // The test's runtime may be gone, so a thread drops the databases.
        static ENDED: LazyLock<Sender<String>> = LazyLock::new(|| {
            let (ended, names) = mpsc::channel();
            let spawned = thread::Builder::new().name("drop test databases".to_owned()).spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                for name in names {
                    if let Err(error) = runtime.block_on(execute(format!("DROP DATABASE {name} WITH (FORCE)"))) {
                        eprintln!("database {name} is not dropped: {error}");
                    }
                }
            });
            if let Err(error) = spawned {
                eprintln!("databases of tests are not dropped: {error}");
            }
            ended
        });
        let _ = ENDED.send(std::mem::take(&mut self.name));
    }
}

/// Creates a database with these options of `CREATE DATABASE`. Returns its name.
pub(crate) async fn create(options: &str) -> String {
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    execute(format!("CREATE DATABASE {name} {options}")).await.expect(&name);
    name
}

/// Creates a database with a migrated schema of this name: a copy of the schema's template, which the first test makes.
pub(crate) async fn create_migrated(schema: &str) -> String {
    let template = format!("template_{schema}");
    let mut made = TEMPLATES.lock().await;
    if !made.contains(schema) {
        // A test that was cancelled leaves its template behind.
        execute(format!("DROP DATABASE IF EXISTS {template} WITH (FORCE)")).await.expect(&template);
        execute(format!("CREATE DATABASE {template}")).await.expect(&template);
        let pool = PgPool::connect(&url_of(&template).await).await.expect("a pool");
        for schema in [schema, SECOND_SCHEMA] {
            let name = SchemaName::new(schema).expect("a schema name");
            let client = Client::builder().schema(name).pool(pool.clone());
            client.migrate().await.expect("a migration");
            if schema == SECOND_SCHEMA {
                client.insert(NewJob::new("second", &json!({}))).await.expect("a job");
            }
        }
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
