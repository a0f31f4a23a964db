//! Rows written by hand, as far as the CHECKs allow them, stop no runner and no client.

use support::prelude::*;

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "task")]
struct Task {}

/// A runner of tasks that prunes at once what is over for an hour.
async fn start_runner(database: &Database) {
    let retention = Retention::default().completed(HOUR).cancelled(HOUR).discarded(HOUR);
    let quick = Duration::from_millis(20);
    let runner = database.runner().queue("default", 4).retention(retention).prune_interval(quick);
    database.start(runner.promote_interval(quick).worker(|_: RunningJob<Task>| async {})).await;
}

#[support::test]
async fn r3_a_note_in_the_errors_of_a_holder_keeps_no_insert_and_no_list_from_its_answer(database: Database) {
    let client = &database.client;
    let sync = || job("sync").unique_key(UniqueKey::raw("k"));
    let holder = client.insert(sync()).await.unwrap();
    database.execute(r#"UPDATE {schema}.job SET errors = '["looked at it", {"by": "me"}]'"#).await;
    for _ in 0..2 {
        let second = client.insert(sync()).await.unwrap();
        assert_eq!((second.duplicate, second.id()), (true, holder.id()));
    }
    assert!(client.insert_many([sync(), job("other")]).await.unwrap()[0].duplicate);
    let row = &client.jobs(JobFilter::new().kind("sync")).await.unwrap()[0];
    let notes: Vec<_> = row.errors.iter().map(|error| (error.attempt, error.error.as_str())).collect();
    assert_eq!(notes, [(0, "looked at it"), (0, r#"{"by":"me"}"#)]);
}

#[support::test]
async fn a_row_whose_values_are_spoiled_fails_no_list_and_keeps_its_errors(database: Database, client: &Client) {
    let spoiled = client.insert_many((0..5).map(|_| job("task"))).await.unwrap();
    let spoil =
        ["errors = '\"a note\"'", "errors = '{\"by\": \"me\"}'", "errors = '[1e400]'", "meta = '{\"n\": 1e400}'"];
    for (inserted, spoil) in spoiled.iter().zip(spoil) {
        database.execute(&format!("UPDATE {{schema}}.job SET {spoil} WHERE id = '{}'", inserted.id())).await;
    }
    let jobs = client.jobs(JobFilter::new().kind("task")).await.unwrap();
    assert_eq!(jobs.len(), 5);
    let row = |n: usize| jobs.iter().find(|job| job.id == spoiled[n].id()).unwrap();
    assert_eq!(row(0).errors[0].error, "a note");
    assert_eq!(row(1).errors[0].error, r#"{"by":"me"}"#);
    assert!(row(2).errors[0].error.contains("00000"));
    assert!(row(3).meta["unreadable"].as_str().unwrap().starts_with("{\"n\": 1"));
    assert!(client.job(spoiled[3].id()).await.unwrap().is_some());

    // A failure is added, and nothing is lost.
    let fail =
        Runner::new(client.clone()).queue("default", 4).worker(|_: RunningJob<Task>| async { Err::<(), _>("failed") });
    let runner = fail.start().await.unwrap();
    database
        .until("SELECT count(*) FROM {schema}.job WHERE errors #>> '{-1,error}' = 'failed' AND meta = '{}'", 4)
        .await;
    runner.stop().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE jsonb_array_length(errors) = 2").await, 3);
}

#[support::test]
async fn infinite_times_are_no_trouble_for_explain_queues_and_maintenance(database: Database, client: &Client) {
    let sync = || job("sync").unique_key(UniqueKey::raw("k").scope(UniqueScope::Active).ttl(MINUTE));
    let holder = client.insert(sync()).await.unwrap();
    database.execute("UPDATE {schema}.job SET unique_until = 'infinity', created_at = '-infinity'").await;
    let explained = client.explain(sync()).await.unwrap();
    assert_eq!(explained.holder.map(|met| met.holder), Some(holder.id()));
    // The first of all, and one without a known waiting time.
    database.execute("UPDATE {schema}.job SET scheduled_at = '-infinity'").await;
    let queue = &Admin::new(client).queues().await.unwrap()[0];
    assert_eq!((queue.available.counted(), queue.oldest_available_age), (1, None));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.queue_status").await, 1);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.stuck_job").await, 1);

    let due = client.insert(job("later").scheduled_in(Duration::from_millis(300))).await.unwrap();
    let services = "INSERT INTO {schema}.maintenance (service, leased_until) SELECT service, '-infinity'
        FROM unnest(ARRAY['promoter', 'rescuer', 'pruner']) AS service";
    database.execute(services).await;
    start_runner(&database).await;
    let promoted = format!("SELECT count(*) FROM {{schema}}.job WHERE id = '{}' AND state = 'available'", due.id());
    database.until(&promoted, 1).await;
}

#[support::test]
async fn a_retention_of_more_years_than_there_are_keeps_its_jobs_and_no_others(database: Database) {
    let jobs = "INSERT INTO {schema}.job (id, kind, queue, state, created_at, finalized_at)
        SELECT {schema}.id_at(now() - interval '30 days' + n * interval '1 ms'), 'a', (ARRAY['archive', 'other'])[1 + n % 2], 'completed',
            now() - interval '30 days', now() - interval '30 days'
        FROM generate_series(1, 100) AS n";
    database.execute(jobs).await;
    let ever = "1000000 years";
    let keep = serde_json::json!({"keep_completed": ever, "keep_cancelled": ever, "keep_discarded": ever});
    database.execute(&format!("SELECT {{schema}}.set_queue('archive', '{keep}')")).await;
    start_runner(&database).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE queue = 'other'", 0).await;
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE queue = 'archive'").await, 50);
}

#[support::test]
async fn taking_claims_back_never_reads_the_whole_table_whatever_was_planned_before(database: Database) {
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let keyed = "INSERT INTO {schema}.job (id, kind, unique_key, unique_states, unique_yielded)
        SELECT gen_random_uuid(), 'a', 'k' || n, 31, true FROM generate_series(1, 12) AS n";
    database.execute(keyed).await;
    database.execute("ANALYZE {schema}.job").await;
    let ids = database.text("SELECT array_agg(id)::text FROM {schema}.job").await;
    let come_back = database.sql(&format!("SELECT {{schema}}._take_claims('{ids}')"));
    let yielded = format!("UPDATE {{schema}}.job SET unique_yielded = true WHERE id = ANY ('{ids}')");
    // A session that has planned it for a table of one page, for good.
    let mut connection = database.pool().acquire().await.unwrap();
    sqlx::raw_sql(come_back.clone()).execute(&mut *connection).await.unwrap();
    database.execute(&yielded).await;
    let jobs = "INSERT INTO {schema}.job (id, kind) SELECT gen_random_uuid(), 'a' FROM generate_series(1, 5000)";
    database.execute(jobs).await;
    let mut tx = connection.begin().await.unwrap();
    // What the session has not told of earlier transactions yet is in the counter, too.
    let scans = database.sql("SELECT pg_stat_get_xact_numscans('{schema}.job'::regclass)");
    let before: i64 = sqlx::query_scalar(scans.clone()).fetch_one(&mut *tx).await.unwrap();
    sqlx::raw_sql(come_back).execute(&mut *tx).await.unwrap();
    let after: i64 = sqlx::query_scalar(scans).fetch_one(&mut *tx).await.unwrap();
    let claiming = database.sql("SELECT count(*) FROM {schema}.job WHERE claims");
    let claiming: i64 = sqlx::query_scalar(claiming).fetch_one(&mut *tx).await.unwrap();
    assert_eq!((after - before, claiming), (0, 12));
    tx.rollback().await.unwrap();
}

/// PostgreSQL refuses it while a function of the language SQL reads the columns of a row that it takes.
#[support::test]
async fn a_column_with_a_default_can_be_added_to_the_job_table(database: Database) {
    for default in ["0", "clock_timestamp()"] {
        let kind = if default == "0" { "integer" } else { "timestamptz" };
        database.execute(&format!("ALTER TABLE {{schema}}.job ADD COLUMN my_{kind} {kind} DEFAULT {default}")).await;
    }
    database.client.insert(job("a").unique_key(UniqueKey::raw("k"))).await.unwrap();
}
