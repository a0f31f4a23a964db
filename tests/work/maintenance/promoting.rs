//! Scheduled jobs become available at their time, at a cost that does not grow with their number.

use std::time::Duration;

use serde_json::Value;
use uniqueue::NewJob;

use super::{Task, caretaker};
use support::{Database, eventually, job};

const WAITING: &str = "SELECT count(*) FROM {schema}.job WHERE state IN ('scheduled', 'retryable')";

#[support::test]
async fn the_promoter_sleeps_until_the_next_job_is_due(database: Database) {
    for wait in [300, 600, 900] {
        database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(wait)).await.unwrap();
    }
    // Looking at intervals alone would never find them.
    let runner = caretaker(&database).promote_interval(Duration::from_secs(3600)).start().await.unwrap();
    eventually!(database.number(WAITING).await == 0, "not promoted in time");
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn many_jobs_that_are_due_together_become_available_together() {
    const JOBS: u32 = 10_000;
    let database = Database::new().await;
    let runner = caretaker(&database).start().await.unwrap();
    let due = Duration::from_secs(1);
    let jobs = (0..JOBS).map(|n| NewJob::from(Task { n }).scheduled_in(due));
    database.client.insert_many(jobs).await.unwrap();
    eventually!(database.number(WAITING).await == 0, "not all promoted");
    // The row tells when it was written only by its transaction, so the test's own clock must do; a
    // busy machine has a few seconds.
    let late = "SELECT extract(epoch FROM now() - max(scheduled_at))::bigint FROM {schema}.job";
    assert!(database.number(late).await < 6, "{} s late", database.number(late).await);
    let early = "SELECT count(*) FROM {schema}.job WHERE state = 'available' AND scheduled_at > now()";
    assert_eq!(database.number(early).await, 0);
    runner.stop().await.unwrap();
}

#[support::test]
async fn an_idle_look_reads_a_handful_of_pages_however_many_jobs_wait(database: Database) {
    let insert = "INSERT INTO {schema}.job (id, kind, state, scheduled_at)
        SELECT gen_random_uuid(), 'a', 'scheduled', now() + interval '1 hour' + n * interval '1 s'
        FROM generate_series(1, 100000) AS n";
    database.execute(insert).await;
    database.execute("VACUUM ANALYZE {schema}.job").await;
    let statements = database.client.statements_text();
    let (_, promote) = statements.iter().find(|(name, _)| *name == "promote").unwrap();
    let explain = promote.replace("$1", "1000::bigint").replace("$2", "NULL");
    let explain = explain.replace("$3", "NULL").replace("$4", "true");
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {explain}");
    // In a session that has called the function before, as the runner's has. It is planned for each call.
    let mut connection = database.pool().acquire().await.unwrap();
    let _: Value = sqlx::query_scalar(database.sql(&explain)).fetch_one(&mut *connection).await.unwrap();
    let plan: Value = sqlx::query_scalar(database.sql(&explain)).fetch_one(&mut *connection).await.unwrap();
    let read = &plan[0]["Plan"];
    let pages = read["Shared Hit Blocks"].as_i64().unwrap() + read["Shared Read Blocks"].as_i64().unwrap();
    assert!(pages < 50, "{pages} pages: {plan:#}");
}

#[support::test]
async fn a_job_that_was_locked_when_it_was_due_is_promoted_later(database: Database) {
    let runner = caretaker(&database).promote_interval(Duration::from_millis(10)).start().await.unwrap();
    let later = database.client.insert(job("a").scheduled_in(Duration::from_millis(100))).await.unwrap();
    let mut locked = database.pool().begin().await.unwrap();
    let lock = format!("SELECT FROM {{schema}}.job WHERE id = '{}' FOR UPDATE", later.id());
    sqlx::query(database.sql(&lock)).execute(&mut *locked).await.unwrap();
    // Others go on meanwhile.
    database.client.insert(job("b").scheduled_in(Duration::from_millis(200))).await.unwrap();
    eventually!(database.number(WAITING).await == 1, "the other is stuck");
    locked.rollback().await.unwrap();
    eventually!(database.number(WAITING).await == 0, "the locked one is forgotten");
    runner.stop().await.unwrap();
}
