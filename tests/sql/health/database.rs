//! Dead rows, vacuum, indexes, retention.

use support::prelude::*;
use uniqueue_admin::{Severity, Thresholds};

use super::{at_once, find, gone, paste, seek};

/// A table with far more dead rows than live ones. In one transaction, whose counts come at once.
async fn bury(database: &Database, rows: u32) {
    let fill =
        format!("INSERT INTO {{schema}}.job (id, kind) SELECT gen_random_uuid(), 'a' FROM generate_series(1, {rows})");
    let mut tx = database.pool().begin().await.unwrap();
    for statement in [fill.as_str(), "DELETE FROM {schema}.job"] {
        sqlx::query(database.sql(statement)).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
}

#[support::test]
async fn a_table_that_autovacuum_leaves_alone_is_named_and_so_are_its_dead_rows(database: Database) {
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    bury(&database, 1_000).await;
    let off = find(&database, at_once(), "autovacuum_off", Severity::Warning, "table job").await;
    let dead = find(&database, at_once(), "dead_rows", Severity::Critical, "table job").await;
    assert!(dead.seen.contains("1,000 of 1,000 rows are dead (100 %)"), "{dead:?}");
    assert!(seek(&database, Thresholds::new(), "dead_rows", "").await.is_none(), "so few are no finding");
    paste(&database, dead.remedy.sql.as_deref().unwrap()).await;
    gone(&database, at_once(), "dead_rows", "table job").await;
    paste(&database, off.remedy.sql.as_deref().unwrap()).await;
    gone(&database, at_once(), "autovacuum_off", "table job").await;
}

#[support::test]
async fn an_autovacuum_that_should_have_come_is_missed(database: Database) {
    let eager = "ALTER TABLE {schema}.job SET (autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0)";
    database.execute(eager).await;
    // It skips a locked table, such as one under a vacuum that never ends.
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::query(database.sql("LOCK TABLE {schema}.job IN SHARE UPDATE EXCLUSIVE MODE"))
        .execute(&mut *tx)
        .await
        .unwrap();
    bury(&database, 1_000).await;
    let late = find(&database, at_once(), "autovacuum_late", Severity::Warning, "table job").await;
    assert!(late.seen.contains("due from 10 on, and no vacuum is known"), "{late:?}");
    tx.rollback().await.unwrap();
    paste(&database, late.remedy.sql.as_deref().unwrap()).await;
    gone(&database, at_once(), "autovacuum_late", "table job").await;
}

#[support::test]
async fn a_bloated_index_is_named_and_rebuilt_by_the_remedy(database: Database) {
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    bury(&database, 20_000).await;
    database.execute("VACUUM {schema}.job").await;
    database.execute("ANALYZE {schema}.job").await;
    let small = Thresholds::new().bloat_bytes(50 * 8_192);
    let finding = find(&database, small.clone(), "index_bloated", Severity::Warning, "index job_fetch").await;
    assert!(finding.seen.contains("times as much"), "{finding:?}");
    assert!(seek(&database, Thresholds::new(), "index_bloated", "").await.is_none(), "2 MB are no finding");
    paste(&database, finding.remedy.sql.as_deref().unwrap()).await;
    gone(&database, small.clone(), "index_bloated", "index job_fetch").await;
}

#[support::test]
async fn final_jobs_that_stay_past_their_retention_are_told_and_deleted_by_the_remedy(database: Database) {
    let fill = "INSERT INTO {schema}.job (id, kind, queue, state, created_at, finalized_at)
        SELECT overlay({schema}.id_at(now() - interval '5 days')::text PLACING right(gen_random_uuid()::text, 12) FROM 25)::uuid,
            'a', 'it''s', 'completed', now() - interval '5 days', now() - interval '3 days'
        FROM generate_series(1, 30)";
    database.execute(fill).await;
    database.client.queue("it's").pause().await.unwrap();
    let finding = find(&database, Thresholds::new(), "retention_late", Severity::Critical, "queue it's").await;
    assert!(finding.seen.contains("30 completed jobs") && finding.seen.contains("no live runner"), "{finding:?}");
    // With a longer retention none are late.
    let insert = "INSERT INTO {schema}.runner (id, name, queues, leased_until, keep_completed, knows_groups)
        VALUES (gen_random_uuid(), 'keeper', '{x}', now() + interval '1 hour', '1000 years', true)";
    database.execute(insert).await;
    assert!(seek(&database, Thresholds::new(), "retention_late", "").await.is_none());
    database.execute("DELETE FROM {schema}.runner").await;
    paste(&database, finding.remedy.sql.as_deref().unwrap()).await;
    gone(&database, Thresholds::new(), "retention_late", "").await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

const TRIGGERS: &str = "SELECT count(*) FROM pg_trigger
    WHERE tgrelid = '{schema}.job'::regclass AND tgname = 'job_max_waiting' AND tgenabled = 'O'";

#[support::test]
async fn a_full_queue_is_told_with_its_limit_and_the_remedy_doubles_it(database: Database, client: &Client) {
    client.queue("it's").set(QueueChanges::new().max_waiting(Some(2))).await.unwrap();
    client.queue("roomy").set(QueueChanges::new().max_waiting(Some(2))).await.unwrap();
    client
        .insert_many([job("a").queue("it's"), job("a").queue("it's").group("g"), job("a").queue("roomy")])
        .await
        .unwrap();
    let any = Thresholds::new();
    let full = find(&database, any.clone(), "queue_full", Severity::Warning, "queue it's").await;
    assert!(full.seen.starts_with("2 of its jobs wait, which is its limit"), "{full:?}");
    assert!(full.remedy.command.as_deref().unwrap().contains("queue max-waiting 'it'"), "{full:?}");
    assert!(seek(&database, any.clone(), "queue_full", "roomy").await.is_none());
    paste(&database, full.remedy.sql.as_deref().unwrap()).await;
    gone(&database, any.clone(), "queue_full", "").await;
    assert_eq!(client.queue("it's").settings().await.unwrap().max_waiting, Some(4));
}

#[support::test]
async fn a_limit_that_no_trigger_enforces_is_told_and_the_remedy_enforces_it(database: Database, client: &Client) {
    let any = Thresholds::new();
    for undone in ["DROP TRIGGER job_max_waiting ON {schema}.job", "ALTER TABLE {schema}.job DISABLE TRIGGER ALL"] {
        client.queue("a").set(QueueChanges::new().max_waiting(Some(1))).await.unwrap();
        assert!(seek(&database, any.clone(), "queue_full", "").await.is_none());
        database.execute(undone).await;
        let lost = find(&database, any.clone(), "queue_full", Severity::Warning, "queue a").await;
        assert!(
            lost.seen.contains("the trigger job_max_waiting, which refuses more, is missing or disabled"),
            "{lost:?}"
        );
        paste(&database, lost.remedy.sql.as_deref().unwrap()).await;
        gone(&database, any.clone(), "queue_full", "").await;
        assert_eq!(database.number(TRIGGERS).await, 1);
        let jobs = [job("a").queue("a"), job("b").queue("a")];
        assert!(matches!(client.insert_many(jobs).await, Err(Error::QueueFull { room: 1, .. })));
    }
}
