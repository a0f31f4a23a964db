//! No view reads the whole job table, with any statistics of the planner.

use support::prelude::*;

const JOBS: i64 = 5_000;

/// Of every state, with keys, without statistics.
async fn filled() -> Database {
    let database = Database::new().await;
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let jobs = format!(
        "INSERT INTO {{schema}}.job (id, kind, queue, state, worker, finalized_at, unique_key, unique_states)
         SELECT {{schema}}.new_job_id(), 'a', 'q' || n % 3, s.state,
            CASE WHEN s.state = 'running' THEN gen_random_uuid() END,
            CASE WHEN s.state IN ('completed', 'discarded', 'cancelled') THEN now() END,
            n::text, 255
         FROM generate_series(1, {JOBS}) AS n
         CROSS JOIN LATERAL (
            SELECT (CASE WHEN n % 50 < 6
                THEN (ARRAY['available', 'running', 'scheduled', 'retryable', 'discarded', 'cancelled'])[1 + n % 50]
                ELSE 'completed' END)::{{schema}}.job_state AS state
         ) AS s"
    );
    database.execute(&jobs).await;
    database
}

/// What PostgreSQL counted on the job table while a query ran, in one transaction so that the counts stay in the
/// session.
async fn counted(database: &Database, count: &str, query: &str) -> (i64, bool) {
    let mut tx = database.pool().begin().await.unwrap();
    let count =
        database.sql(&format!("SELECT {count} FROM pg_stat_xact_all_tables WHERE relid = '{{schema}}.job'::regclass"));
    let before: i64 = sqlx::query(count.clone()).fetch_one(&mut *tx).await.unwrap().get(0);
    let rows = sqlx::query(database.sql(query)).fetch_all(&mut *tx).await.unwrap();
    let after: i64 = sqlx::query(count).fetch_one(&mut *tx).await.unwrap().get(0);
    (after - before, rows.is_empty())
}

#[tokio::test]
async fn no_view_reads_the_whole_job_table() {
    let database = filled().await;
    for view in
        ["queue_status", "failing_kind", "stuck_job", "retention", "group_status", "table_health", "waiting_insert"]
    {
        let query = format!("SELECT v::text FROM {{schema}}.{view} AS v");
        assert_eq!(
            counted(&database, "seq_scan", &query).await,
            (0, ["waiting_insert", "group_status"].contains(&view)),
            "{view}"
        );
    }
}

#[tokio::test]
async fn bounded_views_read_as_much_as_they_are_told() {
    let database = filled().await;
    for call in ["failing_kinds(10)", "stuck_jobs(look_at => 10)", "retentions(10)"] {
        let query = format!("SELECT v::text FROM {{schema}}.{call} AS v");
        let (fetched, _) = counted(&database, "idx_tup_fetch", &query).await;
        // All that run are read for stuck_jobs: they are as few as the runners' slots.
        assert!((1..300).contains(&fetched), "{call}: {fetched}");
    }
}

#[tokio::test]
async fn a_claim_is_found_by_its_key_and_pages_follow_the_index() {
    let database = filled().await;
    database.execute("ANALYZE {schema}.job").await;
    for (query, index) in [
        ("SELECT holder FROM {schema}.unique_claim WHERE unique_key = '7'", "job_unique_key"),
        ("SELECT holder FROM {schema}.unique_claim ORDER BY unique_key LIMIT 20", "job_unique_key"),
        ("SELECT id FROM {schema}.running_job", "job_running"),
    ] {
        let rows = sqlx::query(database.sql(&format!("EXPLAIN {query}"))).fetch_all(database.pool()).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(index) && !plan.contains("Seq Scan on job"), "{plan}");
    }
}
