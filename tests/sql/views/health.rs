//! `retention` and `table_health`.

use sqlx::ConnectOptions;
use support::prelude::*;
use uniqueue::testing;

use super::insert;

#[support::test]
async fn retention_says_how_long_jobs_are_kept_and_how_many_should_be_gone(database: Database) {
    let settings =
        "SELECT name FROM {schema}.set_queue('short', '{\"keep_completed\": 0, \"keep_discarded\": \"30 days\"}')";
    database.text(settings).await;
    for (queue, state, age) in [
        ("short", "completed", "10 minutes"),
        ("short", "completed", "1 minute"),
        ("short", "cancelled", "2 days"),
        ("short", "discarded", "20 days"),
        ("usual", "completed", "25 hours"),
        ("usual", "completed", "26 hours"),
        ("usual", "completed", "23 hours"),
        ("usual", "discarded", "2 days"),
    ] {
        let id = insert(&database, queue).await;
        database.set_state(id, state).await;
        let age = format!(
            "UPDATE {{schema}}.job SET finalized_at = now() - interval '{age}', created_at = now() - interval '{age}',
                id = overlay(id::text PLACING left({{schema}}.id_at(now() - interval '{age}')::text, 13) FROM 1)::uuid
             WHERE id = '{id}'"
        );
        database.execute(&age).await;
    }
    let rows = "SELECT string_agg(concat_ws(' ', queue, state, extract(epoch FROM keep)::bigint, is_default, overdue,
            date_trunc('minute', overdue_by), has_pruner), '; ')
        FROM {schema}.retention";
    assert_eq!(
        database.text(rows).await,
        "short cancelled 86400 t 1 1 day f; short completed 0 f 1 00:10:00 f; short discarded 2592000 f 0 f; \
         usual cancelled 86400 t 0 f; usual completed 86400 t 2 02:00:00 f; usual discarded 604800 t 0 f"
    );
    // A claim with a deadline keeps its row; a pruner with a lease is at work; for ever is no overflow.
    let update =
        "UPDATE {schema}.job SET unique_key = id::text, unique_states = 255, unique_until = now() + interval '1 hour'
             WHERE queue = 'usual' AND finalized_at < now() - interval '25.5 hours'";
    database.execute(update).await;
    let insert = "INSERT INTO {schema}.maintenance (service, holder, leased_until)
             VALUES ('pruner', gen_random_uuid(), now() + interval '1 hour')";
    database.execute(insert).await;
    let ever = r#"{"keep_completed": "100000 years", "keep_cancelled": "forever", "keep_discarded": null}"#;
    database.text(&format!("SELECT name FROM {{schema}}.set_queue('short', '{ever}')")).await;
    assert_eq!(
        database.text(rows).await.replace("3155760000000 f", "… f"),
        "short cancelled 31557600000 f 0 t; short completed … f 0 t; short discarded 604800 t 1 13 days t; \
         usual cancelled 86400 t 0 t; usual completed 86400 t 1 01:00:00 t; usual discarded 604800 t 0 t"
    );
}

#[tokio::test]
async fn a_vacuum_is_told_in_its_own_database() {
    // The table `job` has the same OID in both databases, which are copies of one template.
    let (database, other) = (Database::new().await, Database::new().await);
    database.client.insert_many((0..2_000).map(|_| job("a"))).await.unwrap();
    let mut session = database.pool().acquire().await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *session).await.unwrap();
    // The vacuum is so slow that it lasts until it is cancelled.
    for setting in ["SET vacuum_cost_delay = '100 ms'", "SET vacuum_cost_limit = 1"] {
        sqlx::query(setting).execute(&mut *session).await.unwrap();
    }
    let vacuum = database.sql("VACUUM {schema}.job");
    let vacuum = tokio::spawn(async move { sqlx::query(vacuum).execute(&mut *session).await });
    let vacuumed = "SELECT count(*) FROM {schema}.table_health WHERE table_name = 'job' AND is_being_vacuumed";
    database.until(vacuumed, 1).await;
    assert_eq!((other.number(vacuumed).await, database.number(vacuumed).await), (0, 1));
    database.text(&format!("SELECT pg_cancel_backend({pid})::text")).await;
    vacuum.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn table_health_names_the_session_that_keeps_dead_rows() {
    // A database of its own: a snapshot is held against all of a database.
    let database = testing::Database::new().await.unwrap();
    let options: PgConnectOptions = database.url().parse().unwrap();
    let mut idle = options.application_name("forgotten").connect().await.unwrap();
    let mut open = idle.begin().await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid() WHERE pg_current_xact_id() IS NOT NULL")
        .fetch_one(&mut *open)
        .await
        .unwrap();
    let id = database.client().insert(job("a")).await.unwrap().id();
    database.client().set_priority([id], 3).await.unwrap();
    let row = "SELECT concat_ws(' ', table_name, oldest_snapshot_pid, oldest_snapshot_holder, oldest_snapshot_name,
            oldest_snapshot_state, oldest_snapshot_query, oldest_snapshot_age > interval '0',
            oldest_snapshot_transactions > 0, autovacuum_is_on, vacuum_at_dead_rows, vacuum_is_due, total_bytes > 0)
        FROM uniqueue.table_health WHERE table_name = 'job'";
    let expected = format!(
        "job {pid} session forgotten idle in transaction SELECT pg_backend_pid() WHERE pg_current_xact_id() IS NOT NULL \
         t t t 50 f t"
    );
    let found: String = sqlx::query_scalar(row).fetch_one(database.pool()).await.unwrap();
    assert_eq!(found, expected);
    sqlx::query("ALTER TABLE uniqueue.job SET (autovacuum_enabled = off, autovacuum_vacuum_threshold = 7)")
        .execute(database.pool())
        .await
        .unwrap();
    let found: String = sqlx::query_scalar(row).fetch_one(database.pool()).await.unwrap();
    assert!(found.ends_with("t t f 7 f t"), "{found}");
    // Ended, it is the oldest no more.
    sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(database.pool()).await.unwrap();
    eventually!(
        !sqlx::query_scalar::<_, String>(row).fetch_one(database.pool()).await.unwrap().contains("forgotten"),
        "its snapshot stays"
    );
    let tables: String =
        sqlx::query_scalar("SELECT string_agg(table_name, ' ' ORDER BY table_name) FROM uniqueue.table_health")
            .fetch_one(database.pool())
            .await
            .unwrap();
    assert!(
        tables.contains(
            "job job_parent kind maintenance periodic place prune_range queue queue_group runner schema_history"
        ),
        "{tables}"
    );
    // The dropped transaction of a connection that is gone.
    drop(open);
}
