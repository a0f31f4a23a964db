//! Open transactions and old snapshots: of sessions, prepared transactions, slots and standbys.

use support::prelude::*;
use uniqueue_admin::{Severity, Thresholds};

use super::{NEVER, at_once, diagnose, find, gone, paste, seek};

async fn connect(database: &Database, name: &str) -> PgConnection {
    let url = format!("{}&application_name={name}", database.url);
    PgConnection::connect(&url).await.unwrap()
}

async fn pid(connection: &mut PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(connection).await.unwrap()
}

#[support::test]
async fn the_session_with_an_old_snapshot_is_named_and_ended_by_the_remedy(database: Database) {
    let mut holder = connect(&database, "nightly-report").await;
    let session = format!("session {}", pid(&mut holder).await);
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").execute(&mut holder).await.unwrap();
    let finding = find(&database, at_once(), "old_snapshot", Severity::Warning, &session).await;
    assert!(finding.subject.contains("nightly-report"), "{finding:?}");
    assert!(finding.seen.contains("idle in transaction") && finding.seen.contains("SELECT 1"), "{finding:?}");
    let critical = Thresholds::new().transaction(Duration::ZERO, Duration::ZERO);
    find(&database, critical.clone(), "old_snapshot", Severity::Critical, &session).await;
    assert!(seek(&database, Thresholds::new(), "old_snapshot", &session).await.is_none(), "it is young");
    paste(&database, finding.remedy.sql.as_deref().unwrap()).await;
    gone(&database, at_once(), "old_snapshot", &session).await;
    sqlx::raw_sql("SELECT 1").execute(&mut holder).await.unwrap_err();
}

#[support::test]
async fn the_session_that_others_wait_for_is_named_with_how_many(database: Database) {
    let mut holder = connect(&database, "deploy").await;
    let session = format!("session {}", pid(&mut holder).await);
    let mut tx = holder.begin().await.unwrap();
    let key = || UniqueKey::raw("rebuild");
    database.client.insert(job("a").unique_key(key())).tx(&mut tx).await.unwrap();
    // No session waits yet, but it is idle with locks on rows of the queue.
    let idle = find(&database, at_once(), "blocking_transaction", Severity::Warning, &session).await;
    assert!(idle.seen.contains("has changed or locked rows of job"), "{idle:?}");
    let client = database.client.clone();
    let waiting = tokio::spawn(async move { client.insert(job("a").unique_key(key())).await });
    let began = std::time::Instant::now();
    let finding = loop {
        let found = find(&database, at_once(), "blocking_transaction", Severity::Warning, &session).await;
        if found.seen.contains("1 session waits for it") {
            break found;
        }
        assert!(began.elapsed() < WAIT, "{found:?}");
    };
    paste(&database, finding.remedy.sql.as_deref().unwrap()).await;
    assert!(!waiting.await.unwrap().unwrap().duplicate, "the rival was rolled back");
    gone(&database, at_once(), "blocking_transaction", &session).await;
    drop(tx);
}

#[support::test]
async fn what_a_role_may_not_see_is_said(database: Database) {
    let role = database.name_of("unprivileged");
    database.execute(&format!("CREATE ROLE {role} LOGIN")).await;
    let options: sqlx::postgres::PgConnectOptions = database.url.parse().unwrap();
    let pool = sqlx::postgres::PgPoolOptions::new().connect_with(options.username(&role)).await.unwrap();
    let client = Client::builder().schema(database.client.schema().clone()).pool(pool);
    let mut other = connect(&database, "somebody").await;
    sqlx::raw_sql("BEGIN; SELECT 1").execute(&mut other).await.unwrap();

    let diagnosis = Admin::new(&client).diagnose().await.unwrap();
    let said = |check: &str| {
        let skipped = diagnosis.skipped.iter().find(|skipped| skipped.check == check);
        skipped.unwrap_or_else(|| panic!("{check}: {:#?}", diagnosis.skipped))
    };
    assert!(said("transactions").why.contains("needs pg_monitor"));
    assert_eq!(said("transactions").remedy.as_deref(), Some(format!("GRANT pg_monitor TO \"{role}\";").as_str()));
    assert!(said("replication").why.contains("standbys: needs pg_monitor"));
    let use_it = said("schema").remedy.clone().unwrap();
    assert!(!diagnosis.checks.contains(&"jobs".to_owned()));

    // With each grant it sees more.
    database.execute(&use_it).await;
    database.execute(&format!("GRANT pg_monitor TO {role}")).await;
    let diagnosis = Admin::new(&client).diagnose().await.unwrap();
    let skipped: Vec<_> = diagnosis.skipped.iter().map(|skipped| skipped.check.as_str()).collect();
    assert!(!skipped.contains(&"transactions") && skipped.contains(&"version"), "{diagnosis:#?}");
    let all = format!("GRANT SELECT ON ALL TABLES IN SCHEMA {{schema}} TO {role}");
    database.execute(&all).await;
    let diagnosis = Admin::new(&client).diagnose().await.unwrap();
    assert!(diagnosis.skipped.is_empty() && diagnosis.checks.contains(&"jobs".to_owned()), "{diagnosis:#?}");
}

#[support::test]
async fn a_check_that_is_not_answered_in_time_is_said(database: Database) {
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::query(database.sql("LOCK TABLE {schema}.job")).execute(&mut *tx).await.unwrap();
    let diagnosis = Admin::new(&database.client).diagnose().timeout(Duration::from_millis(100)).await.unwrap();
    let failed: Vec<_> = diagnosis.findings.iter().filter(|finding| finding.code == "check_failed").collect();
    assert!(failed.iter().any(|finding| finding.subject == "check queues"), "{diagnosis:#?}");
    assert!(failed.iter().all(|finding| finding.seen.contains("100ms") && finding.severity == Severity::Warning));
    assert!(diagnosis.skipped.iter().any(|skipped| skipped.check == "queues"));
    assert!(diagnosis.checks.contains(&"transactions".to_owned()), "the others go on");
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn prepared_transactions_slots_and_full_notification_queues_are_named() {
    let server = Postgres::builder()
        .setting("max_prepared_transactions", "5")
        .setting("wal_level", "logical")
        .setting("max_wal_senders", "4");
    let server = server.start().await.unwrap();
    let database = Database::on(&server).await;
    let healthy = diagnose(&database, Thresholds::new()).await;
    assert!(healthy.findings.is_empty(), "{:#?}", healthy.findings);

    let prepare = "BEGIN; SELECT * FROM uniqueue.insert_job('a'); PREPARE TRANSACTION 'it''s mine'";
    sqlx::raw_sql(prepare).execute(database.pool()).await.unwrap();
    let finding = find(&database, at_once(), "prepared_transaction", Severity::Warning, "it's mine").await;
    paste(&database, finding.remedy.sql.as_deref().unwrap()).await;
    gone(&database, at_once(), "prepared_transaction", "").await;

    let create = "SELECT pg_create_logical_replication_slot('left_behind', 'pgoutput')";
    sqlx::raw_sql(create).execute(database.pool()).await.unwrap();
    for _ in 0..5 {
        database.client.insert(job("a")).await.unwrap();
    }
    let few = Thresholds::new().transactions_behind(3, 1_000_000);
    let finding = find(&database, few.clone(), "replication_slot", Severity::Warning, "left_behind").await;
    assert!(finding.seen.contains("no consumer is connected"), "{finding:?}");
    paste(&database, finding.remedy.sql.as_deref().unwrap()).await;
    gone(&database, few.clone(), "replication_slot", "").await;

    // A listener that does not end its transaction keeps every notification in the server's queue.
    let mut deaf = PgConnection::connect(server.url()).await.unwrap();
    let deaf_pid = pid(&mut deaf).await;
    sqlx::raw_sql("LISTEN a").execute(&mut deaf).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT 1").execute(&mut deaf).await.unwrap();
    let notify = "SELECT pg_notify('a', repeat(n::text, 1000)) FROM generate_series(1000, 1099) AS n";
    sqlx::raw_sql(notify).execute(database.pool()).await.unwrap();
    let any = Thresholds::new().notify_usage(1e-9, 0.5);
    let finding = find(&database, any.clone(), "notify_queue", Severity::Warning, "notifications").await;
    // The remedy is a query that names the session.
    let sql = sqlx::AssertSqlSafe(finding.remedy.sql.unwrap());
    let oldest: i32 = sqlx::query_scalar(sql).fetch_one(database.pool()).await.unwrap();
    assert_eq!(oldest, deaf_pid);
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("SELECT pg_terminate_backend({oldest})")))
        .execute(database.pool())
        .await
        .unwrap();
    server.stop().await.unwrap();
}

/// A directory of the test's own, open to the server's user, and gone with it.
struct Scratch(PathBuf);

impl Scratch {
    async fn new() -> Self {
        Self(support::directory("standby").await)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_standby_is_told_apart_and_its_feedback_named() {
    let scratch = Scratch::new().await;
    let (first, second) = (scratch.0.join("first"), scratch.0.join("second"));
    let replicating = |directory: &PathBuf| {
        let server = Postgres::builder().data_dir(directory).durability(Durability::Fast);
        server.setting("wal_level", "replica").setting("max_wal_senders", "4")
    };
    let server = replicating(&first).start().await.unwrap();
    Database::on(&server).await.client.pool().close().await;
    server.stop().await.unwrap();
    assert!(
        Command::new("cp").args(["-a".as_ref(), first.as_os_str(), second.as_os_str()]).status().unwrap().success()
    );
    std::fs::write(second.join("standby.signal"), "").unwrap();
    let server = replicating(&first).start().await.unwrap();
    let (_, socket) = server.url().split_once("host=").unwrap();
    let standby = replicating(&second)
        .setting(
            "primary_conninfo",
            format!("host={} user=postgres application_name=reports", socket.replace("%2F", "/")),
        )
        .setting("hot_standby", "on")
        .setting("hot_standby_feedback", "on")
        .setting("wal_receiver_status_interval", "1s");
    let standby = standby.start().await.unwrap();
    let database = Database::on(&server).await;

    let mut reader = PgConnection::connect(standby.url()).await.unwrap();
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").execute(&mut reader).await.unwrap();
    let few = Thresholds::new().transactions_behind(2, 1_000_000).transaction(NEVER, NEVER);
    for _ in 0..5 {
        database.client.insert(job("a")).await.unwrap();
    }
    let finding = find(&database, few.clone(), "standby_feedback", Severity::Warning, "standby reports").await;
    assert!(finding.seen.contains("keeps dead rows"), "{finding:?}");
    let on_standby = Client::new(sqlx::PgPool::connect(standby.url()).await.unwrap());
    let there = Admin::new(&on_standby).diagnose().await.unwrap();
    assert!(there.findings.iter().any(|finding| finding.code == "standby"), "{:#?}", there.findings);
    reader.close().await.unwrap();
    gone(&database, few.clone(), "standby_feedback", "").await;
    standby.stop().await.unwrap();
    server.stop().await.unwrap();
}
