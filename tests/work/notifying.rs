//! A COMMIT that notifies waits for other such commits, since NOTIFY takes a lock of the whole database. The lock
//! timeouts for rows and keys must not apply to that wait: a timeout there would undo finished work and repeat it.

use tokio::time::sleep;

use support::prelude::*;

const IDLE: &str = "INSERT INTO {schema}.runner (id, name, queues, idle, leased_until, knows_groups)
    VALUES (gen_random_uuid(), 'r', '{default}', true, now() + interval '1 hour', true)";

/// How many of these statements call a function.
fn calls(statements: &[String], function: &str) -> usize {
    statements.iter().filter(|text| text.contains(&format!(".{function}("))).count()
}

#[tokio::test]
async fn what_waits_to_be_committed_is_not_begun_anew() {
    // A commit that is to be synchronous waits for a replica that is not there.
    let server = Postgres::builder().setting("max_wal_senders", "1").setting("wal_level", "replica");
    let server = server.setting("synchronous_standby_names", "none_there").setting("synchronous_commit", "local");
    let server = server.start().await.unwrap();
    let pool = PgPoolOptions::new().max_connections(6).acquire_timeout(WAIT).connect(server.url()).await.unwrap();
    let client = Client::new(pool.clone());
    client.migrate().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(IDLE.replace("{schema}", "uniqueue"))).execute(&pool).await.unwrap();
    let jobs = client.insert_many((0..3).map(|_| job("a"))).await.unwrap();
    client.cancel(JobFilter::all()).await.unwrap();

    let mut slow = pool.acquire().await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *slow).await.unwrap();
    let slow = tokio::spawn(async move {
        sqlx::raw_sql("SET synchronous_commit = on").execute(&mut *slow).await.unwrap();
        let commit = "BEGIN; NOTIFY somebody; INSERT INTO uniqueue.queue (name) VALUES ('somebody''s'); COMMIT";
        sqlx::raw_sql(commit).execute(&mut *slow).await.unwrap();
    });
    let until = async |question: &'static str, wanted: i64| {
        eventually!(
            sqlx::query(question).bind(pid).fetch_one(&pool).await.unwrap().get::<i64, _>(0) == wanted,
            "{question}"
        );
    };
    until("SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep'", 1).await;

    let retrying = client.retry(JobFilter::new().states(JobState::Cancelled)).into_future();
    let inserting = client.insert(job("a").unique_key(UniqueKey::raw("k"))).into_future();
    let let_go = async {
        until("SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND NOT granted AND pid <> $1", 2).await;
        // Several times the longest lock timeout.
        sleep(Duration::from_millis(500)).await;
        sqlx::query("SELECT pg_cancel_backend($1)").bind(pid).execute(&pool).await.unwrap();
    };
    let all = timeout(2 * WAIT, async { tokio::join!(retrying, inserting, let_go) });
    let (all, statements) = statements_of(all).await;
    let (retried, inserted, ()) = all.unwrap();
    assert_eq!((retried.unwrap().len(), inserted.unwrap().duplicate), (jobs.len(), false));
    // A look at its key is enough for a job that is inserted alone.
    assert_eq!((calls(&statements, "retry_jobs"), calls(&statements, "_not_by_scan")), (1, 1));
    timeout(WAIT, slow).await.unwrap().unwrap();
    pool.close().await;
    server.stop().await.unwrap();
}

#[support::test]
async fn patience_ends_where_the_rows_and_keys_are_taken(database: Database, client: &Client) {
    let id = client.insert(job("a").scheduled_in(WAIT)).await.unwrap().id();
    let pending = client.insert(job("a").pending()).await.unwrap().id();
    let running = client.insert(job("a")).await.unwrap().id();
    let worker = uuid::Uuid::now_v7();
    let run = format!(
        "UPDATE {{schema}}.job SET state = 'running', attempt = 1, run = 1, attempted_at = now(), worker = '{worker}'"
    );
    database.execute(&format!("{run} WHERE id = '{running}'")).await;
    let mut connection = database.pool().acquire().await.unwrap();
    let logged = "'100ms', gen_random_uuid(), 'ada', 'verb', '{}', NULL";
    for (name, arguments) in [
        (
            "finish",
            format!(
                "'{worker}', '100ms', '{{{running}}}', '{{1}}', '{{give_back}}', '{{null}}', '{{null}}', '{{null}}',
                '{{null}}', '{{null}}'"
            ),
        ),
        ("cancel_jobs", format!("'{{{id}}}', {logged}")),
        ("release_jobs", format!("'{{{pending}}}', {logged}")),
        ("reschedule_jobs", format!("'{{{id}}}', {logged}, now()")),
        ("retry_jobs", format!("'{{{id}}}', {logged}, false")),
    ] {
        database.prepare(&mut connection, name).await;
        let mut tx = connection.begin().await.unwrap();
        let execute = database.sql(&format!("EXECUTE prepared_{name} ({arguments})"));
        assert_eq!(sqlx::raw_sql(execute).fetch_all(&mut *tx).await.unwrap().len(), 1, "{name}");
        let left: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *tx).await.unwrap();
        assert_eq!(left, "0", "{name}");
        tx.rollback().await.unwrap();
    }

    let mut tx = database.pool().begin().await.unwrap();
    sqlx::raw_sql("SET LOCAL lock_timeout = '7s'").execute(&mut *tx).await.unwrap();
    // PostgreSQL counts to 24 days. A longer wait is as long as that.
    for max_wait in ["50 ms", "100 years"] {
        let insert = "SELECT count(*) FROM {schema}._insert_batch(
                ARRAY[jsonb_populate_record(
                    NULL::{schema}.new_job,
                    jsonb_build_object(
                        'place', 1, 'id', gen_random_uuid(), 'kind', 'a', 'queue', 'default', 'args', '{}'::jsonb,
                        'meta', '{}'::jsonb, 'priority', 0, 'max_attempts', 25, 'unique_key', 'k', 'unique_states', 31,
                        'until_start', false, 'discard_on_reentry', false
                    )
                )],
                false, false, 'MAX_WAIT', NULL
            )";
        let insert = insert.replace("MAX_WAIT", max_wait);
        sqlx::raw_sql(database.sql(&insert)).execute(&mut *tx).await.unwrap();
        let left: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *tx).await.unwrap();
        assert_eq!(left, "7s", "{max_wait}");
    }
}

#[support::test]
async fn a_change_that_is_held_up_by_no_job_is_tried_again_ever_more_rarely(database: Database) {
    database.client.insert_many((0..3).map(|_| job("a"))).await.unwrap();
    database.client.cancel(JobFilter::all()).await.unwrap();
    let migrating = database.begin("LOCK TABLE {schema}.runner").await;
    let retrying = database.client.retry(JobFilter::new().states(JobState::Cancelled)).into_future();
    let let_go = async {
        sleep(Duration::from_secs(2)).await;
        migrating.rollback().await.unwrap();
    };
    let all = timeout(WAIT, async { tokio::join!(retrying, let_go) });
    let (all, statements) = statements_of(all).await;
    assert_eq!(all.unwrap().0.unwrap().len(), 3);
    let tried = calls(&statements, "retry_jobs");
    assert!((2..12).contains(&tried), "{tried} times in two seconds, each 0.1 s long");
}
