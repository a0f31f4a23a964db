//! Roles that insert or work jobs.

use support::prelude::*;

use super::{CHANGES, Task, client, is_refused, role};

#[support::test]
async fn an_inserter_can_insert_in_every_way_and_nothing_else(database: Database) {
    let pool = role(&database, "inserter").await;
    let inserter = client(&database, pool.clone());
    inserter.insert(job("plain")).await.unwrap();
    let key = |conflict| UniqueKey::raw("k").scope(UniqueScope::Active).on_conflict(conflict);
    let first = inserter.insert(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap();
    assert!(inserter.insert(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap().duplicate);
    let second = inserter.insert(job("a").unique_key(key(OnConflict::Replace))).await.unwrap();
    assert_eq!(second.replaced, Some(first.id()));
    assert!(inserter.insert(job("a").unique_key(key(OnConflict::Update))).await.unwrap().updated);
    let covering = UniqueKey::raw("k").on_conflict(OnConflict::RunAgain);
    assert!(inserter.insert(job("a").unique_key(covering)).await.unwrap().covered);
    inserter.insert(job("b").after(&first)).await.unwrap();
    database.set_state(second.id(), "running").await;
    let third = inserter.insert(job("a").unique_key(key(OnConflict::Preempt))).await.unwrap();
    assert_eq!(third.replaced, Some(second.id()));
    database.execute("UPDATE {schema}.job SET unique_until = now()").await;
    assert!(!inserter.insert(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap().duplicate);
    let by_sql = database.sql("SELECT id FROM {schema}.insert_job('a', unique_policy => '{}')");
    sqlx::query(by_sql).execute(&pool).await.unwrap();
    inserter.explain(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap();
    // It is counted without rights of its own to what counts.
    Admin::new(&database.client).audit_duplicates("a", None).await.unwrap();
    assert!(inserter.insert(job("a").unique_key(key(OnConflict::Ignore))).await.unwrap().duplicate);
    assert_eq!(Admin::new(&database.client).audited_kinds().await.unwrap()[0].suppressed, 1);
    // So is a limit of the queue.
    let waiting = database.number("SELECT count(*) FROM {schema}.job WHERE state = 'available'").await;
    database
        .client
        .queue("default")
        .set(QueueChanges::new().max_waiting(Some(u32::try_from(waiting).unwrap() + 1)))
        .await
        .unwrap();
    inserter.insert(job("last")).await.unwrap();
    assert!(matches!(inserter.insert(job("beyond")).await, Err(uniqueue::Error::QueueFull { .. })));
    for statement in [
        "SELECT * FROM {schema}.duplicate_tally",
        "INSERT INTO {schema}.duplicate_tally VALUES (now(), gen_random_uuid(), 1, 'a', 'k')",
        "UPDATE {schema}.duplicate_audit SET suppressed = 0",
        "SELECT {schema}.audit_duplicates('b')",
        "SELECT * FROM {schema}.suppressed_duplicate",
        "DELETE FROM {schema}.job",
        "UPDATE {schema}.job SET args = '{}'",
        "UPDATE {schema}.job SET priority = 9",
        "UPDATE {schema}.job SET state = 'completed', finalized_at = now() WHERE state = 'available'",
        "UPDATE {schema}.job SET state = 'available', finalized_at = NULL WHERE state = 'completed'",
        "UPDATE {schema}.job SET unique_states = 0",
        "UPDATE {schema}.job SET replaced_by = id",
        "UPDATE {schema}.runner SET idle = true",
        "INSERT INTO {schema}.queue (name, max_running) VALUES ('a', 1)",
        "SELECT * FROM {schema}.queue",
        "SELECT * FROM {schema}.queue_status",
        "SELECT * FROM {schema}.running_job",
        "SELECT {schema}.register_kind('a', 'q')",
        "SELECT {schema}.remove_kind('a')",
        "SELECT * FROM {schema}.why_waiting((SELECT id FROM {schema}.job LIMIT 1))",
        "SELECT * FROM {schema}.cancel_jobs(ARRAY(SELECT id FROM {schema}.job))",
        "SELECT * FROM {schema}.delete_jobs(ARRAY(SELECT id FROM {schema}.job))",
        "SELECT * FROM {schema}.pause_queue('a')",
        "SELECT * FROM {schema}.run_periodic('a', NULL, now(), '{}', NULL)",
        "CREATE TABLE {schema}.mine ()",
        "ALTER TABLE {schema}.job ADD COLUMN mine text",
        "DROP TABLE {schema}.job",
        "TRUNCATE {schema}.job",
        "CREATE OR REPLACE FUNCTION {schema}._wake_runners(queues text[]) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    ] {
        is_refused(&database, &pool, statement).await;
    }
}

#[support::test]
async fn a_remote_worker_can_work_jobs_by_its_functions_and_reads_and_writes_no_table(database: Database) {
    let pool = role(&database, "remote_worker").await;
    database.client.insert_many((0..6).map(|_| job("task"))).await.unwrap();
    let run = async |text: &str| sqlx::raw_sql(database.sql(text)).execute(&pool).await.unwrap().rows_affected();
    let on_next = |call: &str| format!("SELECT FROM {{schema}}.fetch_jobs('{{default}}', 'w') AS f, {{schema}}.{call}");
    for call in [
        "extend_jobs(ARRAY[f.id], ARRAY[f.run]) WHERE held",
        "complete_jobs(ARRAY[f.id], ARRAY[f.run]) WHERE counted",
        "fail_jobs(ARRAY[f.id], ARRAY[f.run], '{bad}') WHERE counted",
        "snooze_jobs(ARRAY[f.id], ARRAY[f.run], '{1 s}') WHERE counted",
        "finish_jobs(ARRAY[f.id], ARRAY[f.run], '{cancel}', errors => '{why}') WHERE counted",
        "give_back_jobs(ARRAY[f.id], ARRAY[f.run]) WHERE counted",
    ] {
        assert_eq!(run(&on_next(call)).await, 1, "{call}");
    }
    run("SELECT * FROM {schema}.maintain('w')").await;
    run("SELECT {schema}.stop_worker('w')").await;
    for statement in CHANGES.into_iter().chain([
        "SELECT id FROM {schema}.job",
        "SELECT * FROM {schema}.runner",
        "SELECT * FROM {schema}.queue",
        "SELECT * FROM {schema}.queue_status",
        "SELECT * FROM {schema}.hold_queue('default', '1 s')",
        "SELECT * FROM {schema}._finish_runs(NULL, NULL, ARRAY[gen_random_uuid()], '{1}', '{complete}', NULL, NULL, NULL, NULL)",
    ]) {
        is_refused(&database, &pool, statement).await;
    }
    // Nobody else may call them.
    let inserter = role(&database, "inserter").await;
    for call in ["fetch_jobs('{default}', 'w')", "maintain()", "complete_jobs('{}', '{}')", "stop_worker('w')"] {
        is_refused(&database, &inserter, &format!("SELECT * FROM {{schema}}.{call}")).await;
    }
}

#[support::test]
async fn a_worker_can_run_jobs_and_cannot_change_the_schema(database: Database) {
    let pool = role(&database, "worker").await;
    let retention = Retention::forever().completed(Duration::ZERO);
    let interval = Duration::from_millis(10);
    database.client.queue("default").limit(Some(1)).await.unwrap();
    let runner = Runner::new(client(&database, pool.clone()))
        .queue("default", 1)
        .queue("grouped", 1)
        .retention(retention)
        .prune_interval(interval)
        .worker(|_: RunningJob<Task>| async {})
        .start()
        .await
        .unwrap();
    // The first fetch of a queue's groups makes the queue's row.
    for job in [NewJob::from(Task {}), NewJob::from(Task {}).queue("grouped").group("a")] {
        let inserted = database.client.insert(job).await.unwrap();
        assert_eq!(inserted.job.state, JobState::Available);
        eventually!(database.client.job(inserted.id()).await.unwrap().is_none(), "not worked, or not pruned");
    }
    runner.stop().await.unwrap();
    assert!(Admin::new(&database.client).kind("task").await.unwrap().is_some(), "its kind is registered");
    for statement in [
        "SELECT {schema}.remove_kind('task')",
        "INSERT INTO {schema}.queue (name, max_running) VALUES ('a', 1)",
        "UPDATE {schema}.queue SET paused_at = now()",
        "SELECT * FROM {schema}.pause_queue('a')",
        "DELETE FROM {schema}.periodic",
        "DELETE FROM {schema}.schema_history",
        "TRUNCATE {schema}.job",
        "ALTER TABLE {schema}.job DROP CONSTRAINT job_state_fits",
        "ALTER TABLE {schema}.job DISABLE TRIGGER ALL",
        "DROP INDEX {schema}.job_unique_key",
        "DROP TABLE {schema}.job",
        "CREATE TABLE {schema}.mine ()",
    ] {
        is_refused(&database, &pool, statement).await;
    }
}
