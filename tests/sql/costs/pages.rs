//! The pages that the statements of a runner read.

use sqlx::pool::PoolConnection;
use sqlx::types::Json;
use support::prelude::*;
use support::wanted;

use super::BATCH;

/// Pages that a statement looks at for each of a batch of jobs.
async fn pages(database: &Database, connection: &mut PgConnection, name: &str, arguments: &str) -> f64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE prepared_{name} ({arguments})");
    let plan: Json<Value> =
        sqlx::raw_sql(database.sql(&explain)).fetch_one(connection).await.expect(name).get::<Json<Value>, _>(0);
    let read = |kind: &str| plan[0]["Plan"][kind].as_f64().unwrap();
    (read("Shared Hit Blocks") + read("Shared Read Blocks")) / BATCH as f64
}

/// A connection that knows how to fetch and to complete, and a live runner to do it for.
///
/// It looks up rows by index in a small table too, which the planner would read whole. So both tables are looked at in the
/// same way, and the pages of one say what those of the other should be.
async fn runner(database: &Database) -> (PoolConnection<sqlx::Postgres>, Uuid) {
    let mut connection = database.pool().acquire().await.unwrap();
    let by_index = "SET enable_seqscan = off; SET enable_bitmapscan = off";
    sqlx::raw_sql(by_index).execute(&mut *connection).await.unwrap();
    for name in ["fetch", "complete"] {
        database.prepare(&mut connection, name).await;
    }
    let runner = Uuid::now_v7();
    database.enter_runner(runner, "a", "{default}").await;
    // A session reads the catalog once, to plan what the function does.
    let nothing = fetch_arguments(runner, None).replace(&format!(r#""free":{BATCH}"#), r#""free":0"#);
    pages(database, &mut connection, "fetch", &nothing).await;
    (connection, runner)
}

/// What a fetch of a batch is asked with: from the head of the queue, or from behind a place in it.
fn fetch_arguments(runner: Uuid, place: Option<(&str, &str)>) -> String {
    let head = format!("'{runner}', '{}', '{{task}}', 1, false", wanted(&[("default", BATCH)]));
    match place {
        None => format!("{head}, '{{}}', '{{}}', '{{}}', '{{}}', NULL"),
        Some((scheduled_at, id)) => {
            format!("{head}, '{{default}}', '{{0}}', ARRAY['{scheduled_at}'::timestamptz], '{{{id}}}', NULL")
        }
    }
}

/// Pages a job of a fetch and of its end.
async fn pages_of_a_batch(database: &Database) -> [f64; 2] {
    let (mut connection, runner) = runner(database).await;
    let fetch = pages(database, &mut connection, "fetch", &fetch_arguments(runner, None)).await;
    let ids = format!("SELECT array_agg(id ORDER BY id)::text FROM {{schema}}.job WHERE worker = '{runner}'");
    let ids = database.text(&ids).await;
    let runs = format!("'{ids}', array_fill(1, ARRAY[{BATCH}])");
    let arguments = format!("'{runner}', NULL, {runs}");
    let complete = pages(database, &mut connection, "complete", &arguments).await;
    let completed = format!("SELECT count(*) FROM {{schema}}.job WHERE worker = '{runner}' AND state = 'completed'");
    assert_eq!(database.number(&completed).await, BATCH);
    [fetch, complete]
}

/// Jobs whose ids follow time, as those of clients do.
fn fill(first: i64, count: i64, state: &str) -> String {
    format!(
        "INSERT INTO {{schema}}.job (id, kind, state, finalized_at)
        SELECT ('018f0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'task', '{state}',
            CASE WHEN '{state}' = 'completed' THEN now() END
        FROM generate_series({first}, {first} + {count} - 1) AS g (n)"
    )
}

#[support::test(with_connections(4))]
async fn pages_looked_at_do_not_grow_with_the_table(database: Database) {
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    database.execute(&fill(0, 2 * BATCH, "available")).await;
    database.execute("ANALYZE {schema}.job").await;
    let small = pages_of_a_batch(&database).await;
    database.execute(&fill(1_000_000, 60_000, "completed")).await;
    database.execute(&fill(2_000_000, 60_000, "available")).await;
    database.execute("ANALYZE {schema}.job").await;
    let large = pages_of_a_batch(&database).await;
    // Some more: the indexes are deeper by a level.
    for (name, (small, large)) in ["fetch", "complete"].iter().zip(small.into_iter().zip(large)) {
        let story = format!("{name}: {small} pages a job in a small table, {large} in a large one");
        assert!(large <= small + 4.0 && large < 14.0, "{story}");
    }
}

#[support::test(with_connections(4))]
async fn rows_that_an_old_snapshot_keeps_are_not_walked_from_a_place_behind_them(database: Database) {
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    // Scattered over the table, since a page that is looked at twice in a row counts once.
    database.execute(&format!("{} ORDER BY md5(n::text)", fill(0, 20 * BATCH, "available"))).await;
    database.execute("ANALYZE {schema}.job").await;
    let mut snapshot = database.pool().acquire().await.unwrap();
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ").execute(&mut *snapshot).await.unwrap();
    sqlx::raw_sql(database.sql("SELECT FROM {schema}.job LIMIT 1")).execute(&mut *snapshot).await.unwrap();
    // All but the last batches are gone, and their rows stay for the snapshot's sake.
    let last = database.text("SELECT id::text FROM {schema}.job ORDER BY id OFFSET 17999 LIMIT 1").await;
    let time = database.text("SELECT max(scheduled_at)::text FROM {schema}.job").await;
    database.execute(&format!("DELETE FROM {{schema}}.job WHERE id <= '{last}'")).await;
    let (mut connection, runner) = runner(&database).await;
    let head = pages(&database, &mut connection, "fetch", &fetch_arguments(runner, None)).await;
    let behind = fetch_arguments(runner, Some((&time, &last)));
    let behind = pages(&database, &mut connection, "fetch", &behind).await;
    let fetched = format!("SELECT count(*) FROM {{schema}}.job WHERE worker = '{runner}'");
    assert_eq!(database.number(&fetched).await, 2 * BATCH);
    assert!(behind < 14.0 && head > behind + 10.0, "{head} pages a job from the head, {behind} from behind");
}
