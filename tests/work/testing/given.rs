//! The kit on a server that `DATABASE_URL` names. It is read once a process, so the test runs in a
//! process of its own.

use std::thread;

use uniqueue::{assert_inserted, assert_not_inserted, testing};

use super::Task;
use support::prelude::*;

/// Set in the process that plays the test of an application.
const PLAYED: &str = "UNIQUEUE_TEST_OF_AN_APPLICATION";

/// Runs a test of this file in a process of its own.
fn play(test: &str, url: &str) {
    let played = Command::new(std::env::current_exe().unwrap())
        .args([&format!("testing::given::{test}"), "--exact", "--ignored", "--nocapture"])
        .env("DATABASE_URL", url)
        .env(PLAYED, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    assert!(played.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&played.stderr));
}

/// Fails where no test plays the part, and ends a process that hangs.
fn assert_played() {
    assert!(std::env::var_os(PLAYED).is_some(), "not to be run by hand");
    thread::spawn(|| {
        thread::sleep(2 * WAIT);
        eprintln!("it hangs");
        std::process::exit(1);
    });
}

/// A database of its own on the run's cluster, since other tests' leftovers are none of this one's business.
async fn given(name: &str, role: &str) -> String {
    let url = support::url().await;
    let mut connection = PgConnection::connect(url).await.unwrap();
    for statement in [format!("CREATE ROLE {role} LOGIN"), format!("CREATE DATABASE {name} OWNER {role}")] {
        execute(&mut connection, statement).await;
    }
    url.replacen("/postgres?", &format!("/{name}?"), 1).replacen("//postgres@", &format!("//{role}@"), 1)
}

async fn execute(connection: &mut PgConnection, statement: String) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(connection).await.unwrap();
}

async fn names(connection: &mut PgConnection, query: &'static str) -> Vec<String> {
    sqlx::query_scalar(query).fetch_all(connection).await.unwrap()
}

/// What a run left that was killed long ago, and what one has that goes on now.
fn leftovers() -> (String, String) {
    let now = time::OffsetDateTime::now_utc().unix_timestamp();
    ("uniqueue_test_1700000000_0badcafe_1".to_owned(), format!("uniqueue_test_{now}_0badcafe_1"))
}

#[tokio::test]
async fn with_a_database_url_each_test_has_a_database_of_its_own_that_goes_with_it() {
    let url = given("given_to_a_maker", "maker").await;
    let mut connection = PgConnection::connect(support::url().await).await.unwrap();
    let (old, fresh) = leftovers();
    execute(&mut connection, "ALTER ROLE maker CREATEDB".to_owned()).await;
    for name in [&old, &fresh] {
        execute(&mut connection, format!("CREATE DATABASE {name} OWNER maker")).await;
    }
    // The developer's own queue is in the database that the URL names.
    let developer = Client::connect(&url).await.unwrap();
    developer.migrate().await.unwrap();
    play("the_test_with_a_database", &url);
    assert_not_inserted!(developer, _);
    let databases = names(&mut connection, "SELECT datname::text FROM pg_database WHERE datname ~ '^uniqueue_test_'");
    assert_eq!(databases.await, [fresh]);
}

#[tokio::test]
#[ignore = "played by the test above"]
async fn the_test_with_a_database() {
    assert_played();
    let (one, other) = (testing::Database::new().await.unwrap(), testing::Database::new().await.unwrap());
    for database in [&one, &other] {
        // As without DATABASE_URL: a client that the application made from the URL finds the test's queue.
        let application = Client::connect(database.url()).await.unwrap();
        application.insert(Task { n: 1 }).await.unwrap();
        assert_inserted!(database, Task, state = JobState::Available, count = 1);
        sqlx::query("CREATE TABLE account (id bigint PRIMARY KEY)").execute(database.pool()).await.unwrap();
    }
    // Dropped while a transaction of the application's own holds locks.
    let mut open = PgConnection::connect(one.url()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE account").execute(&mut open).await.unwrap();
    drop(one);
}

#[tokio::test]
async fn with_a_role_that_may_not_create_databases_each_test_has_schemas_of_its_own_that_go_with_it() {
    let url = given("given_to_a_guest", "guest").await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let (old, fresh) = leftovers();
    for name in [&old, &fresh, "uniqueue_test", "bystander"] {
        execute(&mut connection, format!("CREATE SCHEMA {name}")).await;
    }
    play("the_test_with_schemas", &url);
    let schemas = names(
        &mut connection,
        "SELECT nspname::text FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1",
    );
    assert_eq!(schemas.await, ["bystander", "public", "uniqueue_test", &fresh]);
}

#[tokio::test]
#[ignore = "played by the test above"]
async fn the_test_with_schemas() {
    assert_played();
    let (one, other) = (testing::Database::new().await.unwrap(), testing::Database::new().await.unwrap());
    assert_ne!(one.schema(), other.schema());
    for database in [&one, &other] {
        // The same names in both, without a schema.
        sqlx::query("CREATE TABLE account (id bigint PRIMARY KEY)").execute(database.pool()).await.unwrap();
        database.client().insert(Task { n: 1 }).await.unwrap();
        let jobs: i64 = sqlx::query_scalar("SELECT count(*) FROM job").fetch_one(database.pool()).await.unwrap();
        assert_eq!(jobs, 1);
        assert_inserted!(database, Task, state = JobState::Available, count = 1);
    }
    one.advance(MINUTE).await.unwrap();
    // Dropped while a transaction holds locks, on the runtime that would have to end it.
    let mut open = one.pool().begin().await.unwrap();
    sqlx::query("LOCK TABLE job").execute(&mut *open).await.unwrap();
    // Of the application's own, one goes by the test's name, and one by another.
    let elsewhere = Client::connect(one.url()).await.unwrap();
    let name: String = sqlx::query_scalar("SHOW application_name").fetch_one(elsewhere.pool()).await.unwrap();
    assert_eq!(name, one.schema().to_string());
    let named = one.url().parse::<PgConnectOptions>().unwrap().application_name("app");
    let mut named = PgConnection::connect_with(&named).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE account").execute(&mut named).await.unwrap();
    drop(one);
}

#[tokio::test]
async fn what_killed_tests_left_goes_however_much_it_is() {
    // A server with room for the locks of a few schemas.
    let server = Postgres::builder().max_connections(20).setting("max_locks_per_transaction", "20");
    let server = server.start().await.unwrap();
    let mut connection = PgConnection::connect(server.url()).await.unwrap();
    for number in 0..30 {
        let schema = format!("uniqueue_test_1700000000_0badcafe_{number}");
        let tables: String = (0..100).map(|table| format!("CREATE TABLE {schema}.t{table} ();")).collect();
        execute(&mut connection, format!("CREATE SCHEMA {schema}; {tables}")).await;
    }
    play("a_test_that_does_nothing", server.url());
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_namespace WHERE nspname ~ '^uniqueue_test'")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
#[ignore = "played by the test above"]
async fn a_test_that_does_nothing() {
    assert_played();
    let _database = testing::Database::new().await.unwrap();
}
