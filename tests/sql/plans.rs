//! How statements find their rows: never by reading the whole table.

use support::prelude::*;
use support::wanted;
use uniqueue_admin::Backfill;

/// Statements that are more than a call, each with as many nulls as it has parameters: a generic plan does not look at them.
const STATEMENTS: [(&str, usize); 4] =
    [("claiming_jobs", 1), ("store_progress", 4), ("not_completed", 1), ("still_held", 3)];

/// Functions of runners and of remote workers, called so that none finds a job.
const CALLS: [&str; 17] = [
    "_complete_runs(gen_random_uuid(), NULL, ARRAY[gen_random_uuid()], '{1}')",
    "_delete_runs(gen_random_uuid(), NULL, ARRAY[gen_random_uuid()], '{1}')",
    "_finish_runs(gen_random_uuid(), NULL, ARRAY[gen_random_uuid()], '{1}', '{retry}', '{NULL}', '{a}', '{NULL}', '{NULL}')",
    "_run_service('promoter')",
    "_run_service('expirer')",
    "_next_jobs('{other}', '{1}', NULL, '{}')",
    "_discard_unreadable(gen_random_uuid(), 'damaged')",
    "try_jobs(ARRAY[gen_random_uuid()], gen_random_uuid())",
    "_run_service('rescuer')",
    "_release_step(100, NULL, NULL, NULL)",
    "_check_edges(NULL, 100)",
    "_prune_jobs({schema}.id_at(now()), {schema}.id_at(now()), 10, '1 day', '1 day', '1 day', '0')",
    "fetch_jobs('{other}', 'w')",
    "extend_jobs(ARRAY[gen_random_uuid()], '{1}')",
    "complete_jobs(ARRAY[gen_random_uuid()], '{1}')",
    "fail_jobs(ARRAY[gen_random_uuid()], '{1}', '{a}')",
    "stop_worker('w')",
];

/// How many rows of jobs the transaction has read by scans, and by index.
async fn reads(database: &Database, tx: &mut PgConnection) -> (i64, i64) {
    let read = "SELECT seq_tup_read, coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_all_tables
        WHERE relid = '{schema}.job'::regclass";
    sqlx::query_as(database.sql(read)).fetch_one(tx).await.unwrap()
}

#[support::test]
async fn no_statement_of_a_runner_ever_reads_the_whole_table(database: Database) {
    let mut connection = database.pool().acquire().await.unwrap();
    // What a long-lived connection can have planned when the backlog comes: blind to the arguments, without statistics or
    // with some by which the partial indexes are empty.
    let jobs = "INSERT INTO {schema}.job (id, kind) SELECT gen_random_uuid(), 'a' FROM generate_series(1, 5000)";
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    database.execute(jobs).await;
    sqlx::query("SET plan_cache_mode = force_generic_plan").execute(&mut *connection).await.unwrap();
    for (name, _) in STATEMENTS {
        database.prepare(&mut connection, name).await;
    }
    for statistics in ["SELECT", "VACUUM ANALYZE {schema}.job"] {
        database.execute(statistics).await;
        for (name, parameters) in STATEMENTS {
            let nulls = vec!["NULL"; parameters].join(", ");
            let explain = format!("EXPLAIN EXECUTE prepared_{name} ({nulls})");
            let lines = sqlx::raw_sql(database.sql(&explain)).fetch_all(&mut *connection).await.unwrap();
            let plan = lines.iter().map(|line| line.get(0)).collect::<Vec<String>>().join("\n");
            assert!(plan.contains(" on job"), "{name} only calls a function, which hides its plan: {plan}");
            // From all that run, or claim, to each id and back would be a product of the two.
            for reads_all in ["Seq Scan on job", "job_running", "job_unique_key"] {
                assert!(!plan.contains(reads_all), "{name}, after {statistics}:\n{plan}");
            }
        }
    }
}

#[support::test]
async fn no_function_of_a_worker_reads_more_than_it_looks_for_however_empty_the_table_was_at_first(database: Database) {
    let mut connection = database.pool().acquire().await.unwrap();
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let call = |call: &str| database.sql(&format!("SELECT FROM {{schema}}.{call}"));
    // The plans are made and kept while the table is empty.
    for function in CALLS {
        for _ in 0..8 {
            sqlx::raw_sql(call(function)).execute(&mut *connection).await.unwrap();
        }
    }
    let jobs = "INSERT INTO {schema}.job (id, kind, created_at) SELECT gen_random_uuid(), 'a', now() FROM generate_series(1, 5000)";
    database.execute(jobs).await;
    for function in CALLS {
        let mut tx = connection.begin().await.unwrap();
        sqlx::raw_sql(call(function)).execute(&mut *tx).await.unwrap();
        let read = reads(&database, &mut tx).await;
        assert!(read.0 == 0 && read.1 < 20, "{function}: {read:?}");
        tx.rollback().await.unwrap();
    }
}

#[support::test]
async fn a_fetch_reads_the_jobs_that_it_takes_and_no_others_whatever_guards_the_queue(database: Database) {
    const RUNNER: &str = "00000000-0000-7000-8000-000000000001";
    let mut connection = database.pool().acquire().await.unwrap();
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    database.enter_runner(RUNNER.parse().unwrap(), "r", "{default}").await;
    let fetch = |cursor: &str| {
        let queues = wanted(&[("default", 100)]);
        format!(
            "SELECT FROM {{schema}}._fetch_jobs('{RUNNER}', '{queues}', '{{a}}', '{{}}', 1, false, {cursor}, NULL, NULL)"
        )
    };
    let from_head = fetch("'{}', '{}', '{}', '{}'");
    let from_cursor = fetch("'{default}', '{0}', '{2000-01-01}', '{00000000-0000-0000-0000-000000000000}'");
    // The plans are made and kept while the table is empty.
    for _ in 0..10 {
        sqlx::raw_sql(database.sql(&from_head)).fetch_all(&mut *connection).await.unwrap();
    }
    let jobs = format!(
        "INSERT INTO {{schema}}.job (id, kind, state, worker)
        SELECT {{schema}}.new_job_id(), 'a', s.state::{{schema}}.job_state, '{RUNNER}'
        FROM generate_series(1, 5000), (VALUES ('available'), ('running')) AS s (state)"
    );
    database.execute(&jobs).await;
    for guard in [
        "SELECT",
        "INSERT INTO {schema}.job (id, kind, group_key) VALUES ({schema}.new_job_id(), 'a', 'g')",
        "INSERT INTO {schema}.job (id, kind, crashes) VALUES ({schema}.new_job_id(), 'a', 1)",
        "UPDATE {schema}.queue SET rate_count = 1000, rate_period = '1 s', rate_burst = 1000",
    ] {
        database.execute(guard).await;
        for fetch in [&from_head, &from_cursor] {
            let mut tx = connection.begin().await.unwrap();
            let before = reads(&database, &mut tx).await;
            let found = sqlx::raw_sql(database.sql(fetch)).fetch_all(&mut *tx).await.unwrap();
            // And the row of the facts.
            assert_eq!(found.len(), 101, "{guard}");
            let after = reads(&database, &mut tx).await;
            assert_eq!(after.0, before.0, "{guard}");
            // Each is locked and started. Jobs that compete with a group are ranked before.
            let by_index = after.1 - before.1;
            assert!((200..=320).contains(&by_index), "{by_index} rows were read: {guard}");
            tx.rollback().await.unwrap();
        }
    }
}

#[support::test]
async fn a_single_new_job_is_looked_for_by_a_plan_that_is_made_once_and_fits_a_table_that_grows(database: Database) {
    let mut connection = database.pool().acquire().await.unwrap();
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let jobs = "INSERT INTO {schema}.job (id, kind, unique_key, unique_states)
        SELECT {schema}.new_job_id(), 'a', 'k', 31";
    database.execute(jobs).await;
    database.execute("ANALYZE {schema}.job").await;
    database.prepare(&mut connection, "insert_unique_one").await;
    let execute = "EXECUTE prepared_insert_unique_one (gen_random_uuid(), 'a', 'default', '{}', '{}', 0::smallint,
        25::smallint, NULL, NULL, false, 'k', 31::smallint, NULL, NULL, false, false, NULL, NULL, NULL, NULL, NULL, NULL)";
    for _ in 1..10 {
        let inserted = sqlx::raw_sql(execute).fetch_all(&mut *connection).await.unwrap();
        assert_eq!(inserted[0].get::<&str, _>("outcome"), "duplicate");
    }
    let made_once = "SELECT generic_plans > 0 FROM pg_prepared_statements WHERE name = 'prepared_insert_unique_one'";
    assert!(sqlx::query_scalar::<_, bool>(made_once).fetch_one(&mut *connection).await.unwrap());
    let lines = sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN {execute}"))).fetch_all(&mut *connection).await.unwrap();
    let plan = lines.iter().map(|line| line.get(0)).collect::<Vec<String>>().join("\n");
    assert!(plan.contains("using job_unique_key") && !plan.contains("Seq Scan on job"), "{plan}");
    assert!(!plan.contains("not_by_scan"), "{plan}");
}

#[support::test(with_connections(2))]
async fn claims_are_taken_by_a_probe_a_key_whatever_the_planner_believed(database: Database) {
    const SIZE: i64 = 3_000;
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let jobs = "INSERT INTO {schema}.job (id, kind, args)
        SELECT {schema}.new_job_id(), 'a', jsonb_build_object('n', n) FROM generate_series(1, 3000) AS n";
    database.execute(jobs).await;
    // The statistics know of no claims at all.
    database.execute("ANALYZE {schema}.job").await;
    let report = Backfill::keys_of(&database.client, "a", UniquePolicy::new().by_args()).await.unwrap();
    assert_eq!(report.claimed, SIZE.unsigned_abs());
    let read = statistic(&database, "seq_tup_read + idx_tup_fetch", "job", SIZE).await;
    assert!(read < SIZE * 20, "{read} rows were read for {SIZE} keys");
}

#[support::test]
async fn a_runner_that_started_on_an_empty_table_reads_by_index_when_it_has_grown(database: Database) {
    const ROUNDS: u32 = 50;
    const SIZE: u32 = 100;
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    // As empty as the planner can know it to be.
    database.execute("VACUUM ANALYZE {schema}.job").await;
    // So many rows that no later plan scans the table. To complete 500 jobs at once, the planner may scan 60,500 rows.
    let over = "INSERT INTO {schema}.job (id, kind, state, finalized_at)
        SELECT {schema}.new_job_id(), 'over', 'completed', now() FROM generate_series(1, 60000)";
    database.execute(over).await;
    // Maintenance plans each statement anew, so it may well scan a table that is small at the time. Here it is off.
    let off = "INSERT INTO {schema}.maintenance (service, leased_until)
        SELECT name, 'infinity' FROM unnest('{expirer,periodic,promoter,pruner,reindexer,releaser,rescuer}'::text[]) AS name";
    database.execute(off).await;
    let (work, mut starts) = telling(|job| job.args.n);
    database.start(database.runner().queue("default", SIZE as usize).worker(work)).await;
    for _ in 0..ROUNDS {
        database.client.insert_many((0..SIZE).map(|n| Task { n })).await.unwrap();
        for _ in 0..SIZE {
            next(&mut starts).await;
        }
    }
    database.end().await;
    let worked = i64::from(ROUNDS * SIZE);
    statistic(&database, "idx_tup_fetch", "job", worked).await;
    let by_scan = statistic(&database, "seq_tup_read", "job", 0).await;
    assert!(by_scan < worked / 10, "{by_scan} rows were read by scans");
}

#[support::test]
async fn a_fetch_of_groups_reads_one_row_of_a_blocked_group_by_index(database: Database) {
    const ROUNDS: u32 = 10;
    const SIZE: u32 = 200;
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    // As empty as the planner can know it to be.
    database.execute("VACUUM ANALYZE {schema}.job").await;
    let (work, mut starts) = telling(|job| job.args.n);
    database.start(database.runner().queue("default", 40).worker(work)).await;
    // Its first job is of a kind that the runner does not work.
    let blocked = "INSERT INTO {schema}.job (id, kind, group_key, in_order, priority)
        SELECT {schema}.new_job_id(), 'unknown', 'blocked', true, 9 FROM generate_series(1, 20000)";
    database.execute(blocked).await;
    for _ in 0..ROUNDS {
        let jobs = (0..SIZE).map(|n| NewJob::from(Task { n }).group(format!("g{}", n % 20)).group_limit(2));
        database.client.insert_many(jobs).await.unwrap();
        for _ in 0..SIZE {
            next(&mut starts).await;
        }
    }
    database.end().await;
    let worked = i64::from(ROUNDS * SIZE);
    statistic(&database, "idx_tup_fetch", "job", worked).await;
    let read = statistic(&database, "seq_tup_read + idx_tup_fetch", "job", 0).await;
    assert!(read < 100 * worked, "{read} rows were read");
}

/// A column of a table's statistics, once it is at least so much. The sessions that did it have ended.
async fn statistic(database: &Database, column: &str, table: &str, at_least: i64) -> i64 {
    database.pool().close().await;
    let pool = database.another_pool(1).await;
    let read = format!("SELECT {column} FROM pg_stat_all_tables WHERE relid = '{{schema}}.{table}'::regclass");
    eventually!(
        let number = sqlx::query_scalar::<_, i64>(database.sql(&read)).fetch_one(&pool).await.unwrap();
        number >= at_least, "{column} of {table}: {number}"
    )
}

#[support::test]
async fn a_list_of_running_jobs_walks_past_none_that_wait(database: Database) {
    const RUNNING: i64 = 3_000;
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let running = format!(
        "INSERT INTO {{schema}}.job (id, kind, state, worker)
        SELECT {{schema}}.new_job_id(), 'export', 'running', gen_random_uuid() FROM generate_series(1, {RUNNING})"
    );
    database.execute(&running).await;
    let waiting =
        "INSERT INTO {schema}.job (id, kind) SELECT {schema}.new_job_id(), 'export' FROM generate_series(1, 40000)";
    database.execute(waiting).await;
    database.execute("ANALYZE {schema}.job").await;
    let jobs = database.client.jobs(JobFilter::new().states(JobState::Running).limit(100)).await.unwrap();
    assert_eq!(jobs.len(), 100);
    assert!(jobs.is_sorted_by(|a, b| a.id > b.id));
    let read = statistic(&database, "coalesce(idx_tup_fetch, 0)", "job", RUNNING).await;
    assert!(read < 2 * RUNNING, "{read} rows were read by index");
}

#[support::test]
async fn the_tokens_of_each_group_are_looked_up_by_index(database: Database) {
    const GROUPS: i64 = 300;
    let fill = format!(
        "INSERT INTO {{schema}}.job (id, kind, group_key)
        SELECT {{schema}}.new_job_id(), 'sync', 'group ' || n FROM generate_series(1, {GROUPS}) AS n"
    );
    database.execute(&fill).await;
    let spend =
        "SELECT {schema}._spend_tokens(array_agg(queue::text), array_agg(group_key::text), now()) FROM {schema}.job";
    let call = "SELECT {schema}.set_queue('default', '{\"group_rate\": {\"count\": 1, \"period\": 86400}}')";
    database.execute(call).await;
    database.execute(spend).await;
    let visit = "SELECT cardinality(ids)::bigint FROM {schema}._jobs_of_groups('default', '{sync}', 100, 0, false, '{}', 1000, '', '{}')";
    for _ in 0..3 {
        assert_eq!(database.number(visit).await, 0);
    }
    statistic(&database, "idx_scan", "queue_group", 3 * GROUPS).await;
}

#[support::test]
async fn no_check_of_a_diagnosis_ever_reads_the_whole_table(database: Database) {
    let mut connection = database.pool().acquire().await.unwrap();
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    let names = sqlx::query_scalar::<_, String>(database.sql("SELECT unnest({schema}._checks())"));
    let names = names.fetch_all(&mut *connection).await.unwrap();
    // The plans are made, and may be kept, while the table is empty.
    let check = |name: &str| database.sql(&format!("SELECT FROM {{schema}}._find('{name}')"));
    for name in names.iter().flat_map(|name| [name; 8]) {
        sqlx::raw_sql(check(name)).execute(&mut *connection).await.unwrap();
    }
    let jobs = "INSERT INTO {schema}.job (id, kind, created_at) SELECT {schema}.new_job_id(), 'a', now() FROM generate_series(1, 60000)";
    database.execute(jobs).await;
    let mut all = 0;
    for name in &names {
        let mut tx = connection.begin().await.unwrap();
        // The counts of former transactions may be among them still.
        let before = reads(&database, &mut tx).await;
        sqlx::raw_sql(check(name)).execute(&mut *tx).await.unwrap();
        let after = reads(&database, &mut tx).await;
        let (scanned, by_index) = (after.0 - before.0, after.1 - before.1);
        // Beyond 10,000 jobs a queue's are estimated from 500 pages.
        let may_sample = name == "queues";
        assert!((scanned == 0 || may_sample) && scanned.max(by_index) < 60_000, "{name}: {scanned}, {by_index}");
        all += by_index;
        tx.rollback().await.unwrap();
    }
    assert!(all > 40_000, "{all}");
}

#[support::test(with_connections(1))]
async fn a_batch_of_duplicates_probes_once_a_key_whatever_the_planner_believed(database: Database) {
    const SIZE: i64 = 2_000;
    let keyed = || (0..SIZE).map(|n| job("a").unique_key(UniqueKey::raw(n.to_string()))).collect::<Vec<NewJob>>();
    // The connection makes its plans while the statistics say that the table is next to empty, and keeps them.
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    database.client.insert(job("a")).await.unwrap();
    database.execute("ANALYZE {schema}.job").await;
    database.execute("TRUNCATE {schema}.job").await;
    database.client.insert_many(keyed()).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let answers = database.client.insert_many(keyed()).tx(&mut tx).await.unwrap();
    assert!(answers.iter().all(|answer| answer.duplicate));
    // The scan that tells whether any key is claimed ends at the first.
    let (by_scan, by_index) = reads(&database, &mut tx).await;
    assert_eq!(by_scan + by_index, SIZE + 1);
    tx.rollback().await.unwrap();
}
