//! The roles of docs/operations.md can do their work with exactly the grants that it lists, and no more.

use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uniqueue::{
    Client, JobFilter, JobState, OnConflict, PeriodicJob, Retention, Runner, RunningJob, SchemaName, UniqueKey,
};

use crate::support::{Database, WAIT, job, url};

const GUIDE: &str = include_str!("../../docs/operations.md");

#[derive(Debug, serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "task")]
struct Task {}

/// A role with the grants that the guide lists for it, and a pool of its own.
async fn role(database: &Database, name: &str) -> PgPool {
    let role = format!("{}_{name}", database.schema);
    database.execute(&format!("CREATE ROLE {role} LOGIN")).await;
    let lines = GUIDE.lines().filter(|line| line.starts_with("GRANT ") && line.ends_with(&format!(" TO {name};")));
    let mut granted = 0;
    for line in lines {
        let grant = line.replace("uniqueue", &database.schema).replace(&format!(" TO {name};"), &format!(" TO {role}"));
        database.execute(&grant).await;
        granted += 1;
    }
    assert!(granted > 2, "the guide lists grants for {name}");
    let options: PgConnectOptions = url().await.parse().unwrap();
    PgPoolOptions::new().acquire_timeout(WAIT).connect_with(options.username(&role)).await.unwrap()
}

fn client(database: &Database, pool: PgPool) -> Client {
    Client::builder().schema(SchemaName::new(&database.schema).unwrap()).pool(pool)
}

async fn is_refused(database: &Database, pool: &PgPool, statement: &str) {
    let error = sqlx::query(database.sql(statement)).execute(pool).await.unwrap_err();
    let code = error.as_database_error().unwrap().code().unwrap().into_owned();
    assert_eq!(code, "42501", "{statement}: {error}");
}

#[tokio::test]
async fn an_inserter_can_insert_in_every_way_and_nothing_else() {
    let database = Database::new().await;
    let pool = role(&database, "inserter").await;
    let inserter = client(&database, pool.clone());
    inserter.insert(job("plain")).await.unwrap();
    let key = |conflict| UniqueKey::raw("k").on_conflict(conflict);
    let first = inserter.insert(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap();
    assert!(inserter.insert(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap().duplicate);
    let second = inserter.insert(job("a").unique_key(key(OnConflict::Replace))).await.unwrap();
    assert_eq!(second.replaced, Some(first.id()));
    database.execute("UPDATE {schema}.job SET unique_until = now()").await;
    assert!(!inserter.insert(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap().duplicate);
    let by_sql = database.sql("SELECT id FROM {schema}.insert_job('a', unique_policy => '{}')");
    sqlx::query(by_sql).execute(&pool).await.unwrap();
    inserter.explain(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap();
    // It is counted without rights of its own to what counts.
    database.client.audit_duplicates("a").await.unwrap();
    assert!(inserter.insert(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap().duplicate);
    assert_eq!(database.client.audited_kinds().await.unwrap()[0].suppressed, 1);
    for statement in [
        "SELECT * FROM {schema}.duplicate_tally",
        "INSERT INTO {schema}.duplicate_tally VALUES (now(), gen_random_uuid(), 1, 'a', 'k')",
        "UPDATE {schema}.duplicate_audit SET suppressed = 0",
        "SELECT {schema}.audit_duplicates('b')",
        "SELECT * FROM {schema}.suppressed_duplicate",
        "DELETE FROM {schema}.job",
        "UPDATE {schema}.job SET args = '{}'",
        "UPDATE {schema}.runner SET idle = true",
        "INSERT INTO {schema}.queue (name) VALUES ('a')",
        "SELECT * FROM {schema}.queue",
        "CREATE TABLE {schema}.mine ()",
    ] {
        is_refused(&database, &pool, statement).await;
    }
}

#[tokio::test]
async fn a_worker_can_run_jobs_and_cannot_change_the_schema() {
    let database = Database::new().await;
    let pool = role(&database, "worker").await;
    let retention = Retention::forever().completed(Duration::ZERO);
    let interval = Duration::from_millis(10);
    database.client.queue("default").limit(Some(1)).await.unwrap();
    let runner = Runner::new(client(&database, pool.clone()))
        .queue("default", 1)
        .retention(retention)
        .prune_interval(interval)
        .worker(|_: RunningJob<Task>| async {})
        .start()
        .await
        .unwrap();
    let inserted = database.client.insert(Task {}).await.unwrap();
    assert_eq!(inserted.job.state, JobState::Available);
    let began = std::time::Instant::now();
    while database.client.job(inserted.id()).await.unwrap().is_some() {
        assert!(began.elapsed() < WAIT, "not worked, or not pruned");
        tokio::time::sleep(interval).await;
    }
    runner.stop().await.unwrap();
    for statement in [
        "INSERT INTO {schema}.queue (name) VALUES ('a')",
        "DELETE FROM {schema}.schema_history",
        "TRUNCATE {schema}.job",
        "DROP TABLE {schema}.job",
    ] {
        let error = sqlx::query(database.sql(statement)).execute(&pool).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().code().unwrap(), "42501", "{statement}: {error}");
    }
}

#[tokio::test]
async fn an_operator_can_look_change_jobs_and_set_queues_and_cannot_insert() {
    let database = Database::new().await;
    let pool = role(&database, "operator").await;
    let operator = client(&database, pool.clone());
    let key = UniqueKey::raw("k").states(JobState::ALL);
    let id = database.client.insert(job("a").pending().unique_key(key)).await.unwrap().id();
    assert_eq!(operator.release(id).await.unwrap(), [id]);
    assert_eq!(operator.set_priority(id, 3).await.unwrap(), [id]);
    assert_eq!(operator.reschedule(id, time::OffsetDateTime::UNIX_EPOCH).await.unwrap(), [id]);
    database.set_state(id, "running").await;
    assert_eq!(operator.cancel(JobFilter::all()).await.unwrap(), [id]);
    assert_eq!(operator.retry(id).await.unwrap(), [id]);
    assert_eq!(operator.release_claim("k").await.unwrap(), Some(id));
    assert_eq!(operator.jobs(JobFilter::all()).await.unwrap().len(), 1);
    assert_eq!(operator.delete(JobFilter::all()).await.unwrap(), [id]);
    assert!(operator.queue("a").pause().await.unwrap().paused_at.is_some());
    assert_eq!(operator.queue("a").resume().await.unwrap().paused_at, None);
    assert_eq!(operator.queue("a").limit(Some(2)).await.unwrap().limit, Some(2));
    assert_eq!(operator.queues().await.unwrap().len(), 1);
    operator.periodic().define(PeriodicJob::every("p", Duration::from_secs(3600), job("a"))).await.unwrap();
    operator.periodic().pause("p").await.unwrap();
    operator.periodic().remove("p").await.unwrap();
    operator.audit_duplicates("a").await.unwrap();
    operator.audit_duplicates("a").stop().await.unwrap();
    assert_eq!(operator.audited_kinds().await.unwrap().len(), 1);
    assert_eq!(operator.suppressed_duplicates().await.unwrap(), []);
    let off = "INSERT INTO {schema}.maintenance (service, leased_until) VALUES ('pruner', 'infinity')";
    sqlx::query(database.sql(off)).execute(&pool).await.unwrap();
    for statement in [
        "INSERT INTO {schema}.job (id, kind) VALUES (gen_random_uuid(), 'a')",
        "UPDATE {schema}.runner SET idle = true",
        "DELETE FROM {schema}.queue",
        "TRUNCATE {schema}.job",
    ] {
        is_refused(&database, &pool, statement).await;
    }
}

#[tokio::test]
async fn what_the_guide_tells_to_look_at_can_be_looked_at() {
    let database = Database::new().await;
    database.client.insert(job("a").unique_key(UniqueKey::raw("rebuild_index"))).await.unwrap();
    let (_, looking) = GUIDE.split_once("## Looking\n\n```sql\n").unwrap();
    let (queries, _) = looking.split_once("```").unwrap();
    let queries: Vec<_> = queries.split(';').map(str::trim).filter(|query| !query.is_empty()).collect();
    assert_eq!(queries.len(), 5);
    for query in queries {
        database.execute(&query.replace("uniqueue.", "{schema}.")).await;
    }
}
