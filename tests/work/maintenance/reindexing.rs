//! Bloated indexes are rebuilt, others are left alone, and so is what the role does not own.

use super::caretaker;
use support::prelude::*;

const QUICK: Duration = Duration::from_millis(10);

/// Which file an index is in: another one after a rebuild.
async fn file_of(database: &Database, index: &str) -> i64 {
    database.number(&format!("SELECT pg_relation_filenode('{{schema}}.{index}')::bigint")).await
}

async fn pages_of(database: &Database, index: &str) -> i64 {
    database.number(&format!("SELECT pg_relation_size('{{schema}}.{index}') / 8192")).await
}

/// Waits for a whole run: one that begins now, and the beginning of the next.
async fn until_walked(database: &Database) {
    for _ in 0..2 {
        let ran_at = "SELECT coalesce((SELECT ran_at::text FROM {schema}.maintenance WHERE service = 'reindexer'), '')";
        let before = database.text(ran_at).await;
        eventually!(database.text(ran_at).await != before, "no walk begins");
    }
}

#[support::test]
async fn a_bloated_index_is_rebuilt_and_a_full_one_is_left_alone(database: Database) {
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let fill = "INSERT INTO {schema}.job (id, kind, queue)
        SELECT gen_random_uuid(), 'a', 'somebody''s' FROM generate_series(1, 250000)";
    database.execute(fill).await;
    let full = pages_of(&database, "job_fetch").await;
    assert!(full > 1_024, "{full} pages are too few to be looked at");
    let (file, other) = (file_of(&database, "job_fetch").await, file_of(&database, "job_pkey").await);
    database.start(caretaker(&database).reindex_interval(QUICK)).await;
    until_walked(&database).await;
    assert_eq!(file_of(&database, "job_fetch").await, file, "what is full is not bloated");
    // The backlog is worked off; its index keeps its pages.
    database.execute("UPDATE {schema}.job SET state = 'completed', finalized_at = now()").await;
    database.execute("VACUUM {schema}.job").await;
    assert!(pages_of(&database, "job_fetch").await >= full);
    eventually!(pages_of(&database, "job_fetch").await < full / 10, "not rebuilt");
    until_walked(&database).await;
    assert_ne!(file_of(&database, "job_fetch").await, file);
    assert_eq!(file_of(&database, "job_pkey").await, other, "every job is still in it");
    // Once, and not again in each run.
    let rebuilt = file_of(&database, "job_fetch").await;
    until_walked(&database).await;
    assert_eq!(file_of(&database, "job_fetch").await, rebuilt);
}

#[support::test]
async fn what_a_failed_rebuild_left_behind_is_dropped_and_nothing_else(database: Database) {
    for _ in 0..2 {
        database.client.insert(support::job("a")).await.unwrap();
    }
    // It fails half way, as a rebuild does: an invalid index stays.
    for name in ["job_fetch_ccnew", "job_fetch_ccold1", "job_mine"] {
        let create = format!("CREATE UNIQUE INDEX CONCURRENTLY {name} ON {{schema}}.job (kind)");
        sqlx::query(database.sql(&create)).execute(database.pool()).await.unwrap_err();
    }
    database.execute("CREATE INDEX job_valid_ccnew ON {schema}.job (kind)").await;
    let left = "SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class AS c
        WHERE c.relnamespace = '{schema}'::regnamespace AND c.relname IN
            ('job_fetch_ccnew', 'job_fetch_ccold1', 'job_mine', 'job_valid_ccnew')";
    assert_eq!(database.text(left).await.split(' ').count(), 4);
    database.start(caretaker(&database).reindex_interval(QUICK)).await;
    eventually!(database.text(left).await == "job_mine job_valid_ccnew", "still there");
}

/// Cancels the reindexer's statement that waits for another transaction, as its timeout would, and says which it was.
/// One that began no later than `last` was cancelled before.
async fn give_up(database: &Database, last: &mut String) -> String {
    let schema = &database.schema;
    let cancel = format!(
        "SELECT coalesce(min(substring(a.query FROM '^[A-Z]+') || ' ' || a.query_start)
            FILTER (WHERE pg_cancel_backend(a.pid)), '')
        FROM pg_stat_activity AS a
        WHERE a.query ~ '^(REINDEX|DROP) INDEX CONCURRENTLY.*\"{schema}\"' AND a.datname = current_database()
            AND a.state = 'active'
            AND a.wait_event_type = 'Lock' AND a.query_start > '{last}'"
    );
    let cancelled = eventually!(let cancelled = database.text(&cancel).await; !cancelled.is_empty(), "nothing waits");
    let (command, began) = cancelled.split_once(' ').unwrap();
    began.clone_into(last);
    command.to_owned()
}

#[support::test]
async fn while_a_failed_rebuilds_leftover_stays_nothing_is_rebuilt(database: Database) {
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    for _ in 0..5 {
        let fill = "INSERT INTO {schema}.job (id, kind, queue)
            SELECT gen_random_uuid(), 'a', 'somebody''s' FROM generate_series(1, 50000)";
        database.execute(fill).await;
    }
    database.execute("DELETE FROM {schema}.job").await;
    database.execute("VACUUM {schema}.job").await;
    let files = [file_of(&database, "job_fetch").await, file_of(&database, "job_pkey").await];
    // A transaction that goes on, as that of a dump.
    let dump = database.begin("LOCK TABLE {schema}.job IN ACCESS SHARE MODE").await;
    database.start(caretaker(&database).reindex_interval(QUICK)).await;
    let mut last = "-infinity".to_owned();
    assert_eq!(give_up(&database, &mut last).await, "REINDEX");
    for _ in 0..4 {
        assert_eq!(give_up(&database, &mut last).await, "DROP");
    }
    let left = "SELECT count(*) FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        WHERE c.relnamespace = '{schema}'::regnamespace AND NOT i.indisvalid";
    assert_eq!(database.number(left).await, 1);
    dump.rollback().await.unwrap();
    for (index, file) in ["job_fetch", "job_pkey"].into_iter().zip(files) {
        eventually!(file_of(&database, index).await != file, "not rebuilt");
    }
    eventually!(database.number(left).await == 0, "still there");
}

#[support::test]
async fn without_a_session_of_its_own_or_when_switched_off_a_runner_rebuilds_nothing(database: Database) {
    database.start(caretaker(&database).reindex_interval(Duration::MAX)).await;
    database.start(caretaker(&database).reindex_interval(QUICK).poll_only()).await;
    eventually!(!super::holder(&database, "pruner").await.is_empty(), "no runner prunes");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(super::holder(&database, "reindexer").await, "");
}

#[support::test]
async fn a_queue_that_was_just_made_is_walked_after_an_interval_and_not_at_once(database: Database) {
    database.execute("INSERT INTO {schema}.maintenance (service, leased_until) VALUES ('reindexer', now())").await;
    let mut connection = database.pool().acquire().await.unwrap();
    database.prepare(&mut connection, "begin_run").await;
    for (interval, begins) in [("1 day", 0), ("1 day", 0), ("0", 1), ("1 day", 0)] {
        let execute = format!("EXECUTE prepared_begin_run ('reindexer', '{interval}')");
        let began = sqlx::raw_sql(database.sql(&execute)).fetch_all(&mut *connection).await.unwrap();
        assert_eq!(began.len(), begins, "{interval}");
    }
    connection.close().await.unwrap();
}
