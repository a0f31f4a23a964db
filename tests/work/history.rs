//! History: what is counted, that each count is written once, and how long it is kept.

use uniqueue_admin::{History, HistoryCounts};

use super::remote::Remote;
use support::prelude::*;

#[derive(Debug, serde::Deserialize, Job, serde::Serialize)]
#[job(kind = "grade", max_attempts = 2)]
struct Grade {
    outcome: String,
}

async fn grade(job: RunningJob<Grade>) -> Result<Outcome, uniqueue::BoxError> {
    match job.args.outcome.as_str() {
        "complete" => Ok(Outcome::complete()),
        "discard" => Ok(Outcome::discard("no")),
        _ => Err("bad".into()),
    }
}

/// Inserted, duplicates, completed, failed, discarded.
fn numbers(counts: &HistoryCounts) -> [u64; 5] {
    let HistoryCounts { inserted, duplicates, completed, failed, discarded, .. } = *counts;
    [inserted, duplicates, completed, failed, discarded]
}

async fn total(client: &Client) -> HistoryCounts {
    Admin::new(client).history(HOUR).await.unwrap().total()
}

#[support::test]
async fn a_minute_counts_what_happened_by_kind_and_queue(database: Database, client: &Client) {
    let runner = quick(client).queue("other", 1).worker(grade).start().await.unwrap();
    let grades = ["complete", "complete", "discard", "fail"];
    let inserted = client.insert_many(grades.map(|outcome| Grade { outcome: outcome.to_owned() })).await.unwrap();
    let elsewhere = client.insert(Grade { outcome: "complete".to_owned() }).queue("other").await.unwrap();
    for _ in 0..3 {
        client.insert(job("plain").unique_key(UniqueKey::raw("k"))).await.unwrap();
    }
    for id in inserted.iter().map(uniqueue::Inserted::id).chain([elsewhere.id()]) {
        client.wait(id).timeout(WAIT).await.unwrap();
    }
    assert!(total(client).await.is_empty(), "written before its minute was over");
    runner.stop().await.unwrap();

    let all = total(client).await;
    // The failing grade failed twice and was discarded, the discarded one counts as failed as well.
    assert_eq!(numbers(&all), [6, 2, 3, 3, 2]);
    assert_eq!((all.wait.count(), all.run.count()), (6, 6));
    let admin = Admin::new(client);
    let graded = admin.history(HOUR).kind("grade").await.unwrap().total();
    assert_eq!(numbers(&graded), [5, 0, 3, 3, 2]);
    let elsewhere = admin.history(HOUR).kind("grade").queue("other").await.unwrap().total();
    assert_eq!(numbers(&elsewhere), [1, 0, 1, 0, 0]);
    let elsewhere = admin.history(48 * HOUR).step(HOUR).queue("other").await.unwrap().total();
    assert_eq!(numbers(&elsewhere), [1, 0, 1, 0, 0]);
    let kinds = admin.history_by_kind(HOUR, 10).await.unwrap();
    assert_eq!(kinds.iter().map(|of| of.kind.as_str()).collect::<Vec<_>>(), ["grade", "plain"], "failing kinds first");
    assert_eq!(numbers(&kinds[1].counts), [1, 2, 0, 0, 0]);
    // Minutes, hours and days tell the same.
    for since in [24 * HOUR, 7 * 24 * HOUR] {
        assert_eq!(admin.history_by_kind(since, 10).await.unwrap(), kinds);
        assert_eq!(admin.history_by_queue(since).await.unwrap(), admin.history_by_queue(HOUR).await.unwrap());
    }
    let queues = admin.history_by_queue(24 * HOUR).await.unwrap();
    assert_eq!(queues.iter().map(|of| of.queue.as_str()).collect::<Vec<_>>(), ["default", "other"]);
    assert_eq!(numbers(&queues[0].counts), [5, 2, 2, 3, 2]);
    assert_eq!(admin.history_totals().await.unwrap(), queues);
    let in_sql = database
        .number("SELECT sum(completed)::bigint FROM {schema}.kind_history WHERE span = 'minute' AND run_p99 > 0")
        .await;
    assert_eq!(in_sql, 3);
}

#[support::test]
async fn counts_are_written_by_themselves_and_only_where_there_are_any(database: Database) {
    let client = database.builder().history_interval(SECOND).pool(database.pool().clone());
    client.insert(Task { n: 1 }).await.unwrap();
    eventually!(total(&client).await.inserted == 1, "never written");
    let written = "SELECT batch FROM {schema}.history_writer";
    let before = database.number(written).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(database.number(written).await, before, "written without counts");
    // The task that writes begins again.
    client.insert(Task { n: 2 }).await.unwrap();
    eventually!(total(&client).await.inserted == 2, "never written again");
}

#[support::test]
async fn a_batch_counts_once_though_its_answer_was_lost(database: Database) {
    let proxy = Proxy::before(&database.url).await;
    let client = database.builder().connect(&proxy.url()).await.unwrap();
    client.insert(Task { n: 1 }).await.unwrap();
    let struck = proxy.strike("_write_history", Fault::Reset);
    client.write_history().await.unwrap_err();
    struck.await.unwrap();
    eventually!(total(&database.client).await.inserted == 1, "the statement did not arrive");
    // Counts made meanwhile are another batch.
    client.insert(Task { n: 2 }).await.unwrap();
    client.write_history().await.unwrap();
    assert_eq!(total(&database.client).await.inserted, 2);
    assert_eq!(database.number("SELECT batch FROM {schema}.history_writer").await, 2);
}

#[support::test]
async fn counts_are_kept_while_the_database_takes_none(database: Database) {
    database.execute("ALTER FUNCTION {schema}._write_history RENAME TO hidden").await;
    for n in 0..5 {
        database.client.insert(Task { n }).await.unwrap();
        database.client.write_history().await.unwrap_err();
    }
    database.execute("ALTER FUNCTION {schema}.hidden RENAME TO _write_history").await;
    database.client.write_history().await.unwrap();
    assert_eq!(total(&database.client).await.inserted, 5);
}

#[support::test]
async fn writers_of_the_same_rows_wait_for_each_other_and_lose_nothing(database: Database) {
    let clients = [(); 8].map(|()| database.client_over(database.pool().clone()));
    for _ in 0..5 {
        let writes = clients.iter().cloned().map(|client| async move {
            client.insert_many(["c", "a", "b"].map(job)).await.unwrap();
            client.write_history().await.unwrap();
        });
        writes.collect::<JoinSet<_>>().join_all().await;
    }
    assert_eq!(total(&database.client).await.inserted, 8 * 5 * 3);
    assert_eq!(Admin::new(&database.client).history_totals().await.unwrap()[0].counts.inserted, 8 * 5 * 3);
}

#[support::test]
async fn writers_of_several_days_do_not_deadlock(database: Database) {
    let counts = r#"(SELECT jsonb_agg(jsonb_build_object('kind', '', 'queue', q, 'inserted', 1))
        FROM (SELECT 'q' || n FROM generate_series(1, 50) AS n UNION ALL SELECT '') AS q (q))"#;
    // One writer is late: it writes the totals with its first day, and then comes to the day of the other writer.
    let minute = |age: u32| format!("jsonb_build_object('age', {age}, 'counts', {counts})");
    let (late, prompt) = (format!("{}, {}, {}", minute(172_800), minute(86_400), minute(0)), minute(0));
    let writes = [&late, &prompt, &late, &prompt].into_iter().enumerate().map(|(number, minutes)| {
        let write = format!(
            "SELECT {{schema}}._write_history('00000000-0000-0000-0000-00000000000{number}', $1, jsonb_build_array({minutes}))"
        );
        let (write, pool) = (database.sql(&write), database.pool().clone());
        async move {
            for batch in 1..=20_i64 {
                sqlx::query(write.clone()).bind(batch).execute(&pool).await.unwrap();
            }
        }
    });
    writes.collect::<JoinSet<_>>().join_all().await;
    let written = database.number("SELECT inserted FROM {schema}.history_total WHERE queue = 'q1'").await;
    assert_eq!(written, 20 * (3 + 1 + 3 + 1));
}

#[support::test]
async fn inserts_in_sql_and_remote_workers_are_counted_when_they_commit(database: Database, client: &Client) {
    database.begin("SELECT {schema}.insert_job('rolled back')").await.rollback().await.unwrap();
    database.execute("SELECT {schema}.insert_job('one', max_attempts => 1) FROM generate_series(1, 3)").await;
    database.execute(r#"SELECT FROM {schema}.insert_jobs('[{"kind": "two"}, {"kind": "two", "queue": "q"}]')"#).await;
    let duplicate = r#"SELECT {schema}.insert_job('three', queue => 'q', unique_policy => '{"key": "k"}')"#;
    database.execute(duplicate).await;
    database.execute(duplicate).await;
    let worker = Remote::new(&database, "w");
    let jobs = worker.fetch(3).await;
    worker.end(&jobs[..1], "complete_jobs", "").await;
    worker.end(&jobs[1..2], "fail_jobs", ", ARRAY['bad']").await;
    worker.end(&jobs[2..3], "finish_jobs", ", ARRAY['discard'], errors => ARRAY['no']").await;
    // Results that do not count are not counted.
    worker.end(&jobs[..3], "complete_jobs", "").await;
    assert_eq!(database.number("SELECT {schema}._tend_history()::bigint").await, 9);

    let all = total(client).await;
    assert_eq!(numbers(&all), [6, 0, 1, 2, 2]);
    assert_eq!((all.wait.count(), all.run.count()), (3, 3));
    assert_eq!(numbers(&Admin::new(client).history(HOUR).queue("q").await.unwrap().total()), [2, 0, 0, 0, 0]);
    assert!(Admin::new(client).history(HOUR).kind("rolled back").await.unwrap().total().is_empty());
}

#[support::test]
async fn totals_of_a_queue_go_with_its_settings_or_its_last_day(database: Database, client: &Client) {
    for queue in ["removed", "unused", "used"] {
        client.insert(job("a").queue(queue)).await.unwrap();
    }
    client.write_history().await.unwrap();
    assert!(!client.queue("removed").remove().await.unwrap(), "it has no settings");
    database.execute("DELETE FROM {schema}.history WHERE queue = 'unused' AND span = 'day'").await;
    database.execute("SELECT {schema}._tend_history()").await;
    let totals = Admin::new(client).history_totals().await.unwrap();
    assert_eq!(totals.iter().map(|of| of.queue.as_str()).collect::<Vec<_>>(), ["used"]);
}

#[support::test]
async fn an_insert_that_is_sent_again_with_its_id_counts_once(database: Database, client: &Client) {
    let (alone, key) = (uniqueue::JobId::generate(), uniqueue::JobId::generate());
    let keyed = || job("keyed").id(key).unique_key(UniqueKey::raw("k"));
    for _ in 0..2 {
        client.insert(job("alone").id(alone)).await.unwrap();
        client.insert_many([job("alone").id(alone), job("alone"), keyed()]).await.unwrap();
    }
    client.write_history().await.unwrap();
    let of_kind = async |kind: &str| numbers(&Admin::new(client).history(HOUR).kind(kind).await.unwrap().total());
    assert_eq!(of_kind("alone").await, [3, 0, 0, 0, 0]);
    assert_eq!(of_kind("keyed").await, [1, 0, 0, 0, 0]);

    let (one, many) = (uniqueue::JobId::generate(), uniqueue::JobId::generate());
    for _ in 0..2 {
        database.execute(&format!("SELECT {{schema}}.insert_job('one', id => '{one}')")).await;
        let jobs =
            format!(r#"[{{"kind": "many", "id": "{many}"}}, {{"kind": "many", "id": "{many}"}}, {{"kind": "many"}}]"#);
        database.execute(&format!("SELECT FROM {{schema}}.insert_jobs('{jobs}')")).await;
    }
    database.execute("SELECT {schema}._tend_history()").await;
    assert_eq!(of_kind("one").await, [1, 0, 0, 0, 0]);
    assert_eq!(of_kind("many").await, [3, 0, 0, 0, 0]);
    // Jobs that are settled one by one count all the same.
    let replace = r#"[{"kind": "new", "unique_policy": {"key": "a", "on_conflict": "replace"}}, {"kind": "new"}]"#;
    database.execute(&format!("SELECT FROM {{schema}}.insert_jobs('{replace}')")).await;
    database.execute("SELECT {schema}._tend_history()").await;
    assert_eq!(of_kind("new").await, [2, 0, 0, 0, 0]);
}

#[support::test]
async fn a_job_that_was_due_before_all_time_waited_ten_years(database: Database) {
    let id = database.client.insert(Task { n: 1 }).await.unwrap().id();
    database.execute("UPDATE {schema}.job SET scheduled_at = '-infinity'").await;
    database.start(quick(&database.client).worker(at_once)).await;
    database.client.wait(id).timeout(WAIT).await.unwrap();
    database.end().await;
    assert_eq!(total(&database.client).await.wait.sum(), 10 * 365 * 24 * HOUR);
}

#[support::test]
async fn a_round_of_the_pruner_adds_all_counts_of_sql_to_the_history(database: Database) {
    let insert =
        "INSERT INTO {schema}.history_tally (at, inserted, completed, failed, discarded, kind, queue, waits, runs)
        SELECT now(), 1, 0, 0, 0, 'a', 'default', '{}', '{}' FROM generate_series(1, 25000)";
    database.execute(insert).await;
    database.start(quick(&database.client).prune_interval(DAY).worker(at_once)).await;
    database.until("SELECT count(*) FROM {schema}.history_tally", 0).await;
    database.end().await;
    assert_eq!(total(&database.client).await.inserted, 25_000);
}

#[support::test]
async fn a_full_delete_of_old_minutes_says_that_there_may_be_more(database: Database) {
    let insert = "INSERT INTO {schema}.history (at, inserted, duplicates, completed, failed, discarded, wait_seconds, run_seconds, span, kind, queue, waits, runs)
        SELECT date_trunc('minute', now()) - interval '8 days' - n * interval '1 minute', 1, 0, 0, 0, 0, 0, 0, 'minute', '', '', '{}', '{}'
        FROM generate_series(1, 25) AS n";
    database.execute(insert).await;
    let tend = async || database.number("SELECT {schema}._tend_history(10)::bigint").await;
    assert_eq!([tend().await, tend().await, tend().await], [10, 10, 5]);
}

#[support::test]
async fn minutes_are_kept_for_a_week_and_hours_and_days_for_ninety_days(database: Database) {
    let insert = "INSERT INTO {schema}.history (at, inserted, duplicates, completed, failed, discarded, wait_seconds, run_seconds, span, kind, queue, waits, runs)
        SELECT date_trunc(span, now()) - day * interval '1 day', 1, 0, 0, 0, 0, 0, 0, span, '', '', '{}', '{}'
        FROM (VALUES ('minute'), ('hour'), ('day')) AS s (span), generate_series(1, 100) AS day";
    database.execute(insert).await;
    database.execute("SELECT {schema}._tend_history()").await;
    for (span, days) in [("minute", 6), ("hour", 89), ("day", 90)] {
        let left = database.number(&format!("SELECT count(*) FROM {{schema}}.history WHERE span = '{span}'")).await;
        assert!((days..=days + 1).contains(&left), "{span}: {left}");
    }
    let long = Admin::new(&database.client).history(90 * 24 * HOUR).await.unwrap();
    assert!((89..=90).contains(&long.total().inserted));
    assert_eq!(long.step, 6 * HOUR);
    let refused = Admin::new(&database.client).history(8 * 24 * HOUR).step(HOUR / 2).await.unwrap_err();
    assert!(refused.to_string().contains("whole hours"), "{refused}");
}

#[support::test]
async fn a_kind_takes_less_than_a_megabyte_a_day(database: Database) {
    let size = "SELECT pg_total_relation_size('{schema}.history')";
    let before = database.number(size).await;
    // Every minute of a day has counts, and histograms that reach to half an hour.
    let insert = "INSERT INTO {schema}.history (at, inserted, duplicates, completed, failed, discarded, wait_seconds, run_seconds, span, kind, queue, waits, runs)
        SELECT date_trunc(span, now()) - n * ('1 ' || span)::interval, 1000, 10, 990, 10, 1, 99.5, 99.5, span, 'email.send',
            'notifications', array_fill(50, ARRAY[20]), array_fill(50, ARRAY[20])
        FROM (VALUES ('minute', 1440), ('hour', 24), ('day', 1)) AS s (span, steps), generate_series(steps, 1, -1) AS n";
    database.execute(insert).await;
    let took = database.number(size).await - before;
    println!("a kind in one queue takes {took} bytes a day");
    assert!(took < 1_000_000, "{took}");
}

#[support::test]
async fn the_first_runner_of_a_new_version_marks_a_deploy(database: Database) {
    let start = |version: &'static str| quick(&database.client).version(version).worker(at_once).start();
    let first = start("1.0").await.unwrap();
    let same = start("1.0").await.unwrap();
    let next = start("1.1").await.unwrap();
    for runner in [first, same, next] {
        runner.stop().await.unwrap();
    }
    // A runner that goes on after a silence of more than a lease is no deploy, though another version is the last one.
    let (old, new) = (start("1.0").await.unwrap(), start("1.1").await.unwrap());
    let (before, silent) = (old.id(), "UPDATE {schema}.runner SET leased_until = now() - interval '1 hour'");
    database.execute(silent).await;
    eventually!(
        old.id() != before
            && database.number("SELECT count(*) FROM {schema}.runner WHERE leased_until > now()").await == 2
    );
    for runner in [old, new] {
        runner.stop().await.unwrap();
    }
    for version in ["1.1", "1.0"] {
        start(version).await.unwrap().stop().await.unwrap();
    }
    let history = History::merged([Admin::new(&database.client).history(HOUR).await.unwrap()]).unwrap();
    let versions: Vec<_> = history.deploys.iter().map(|deploy| deploy.version.as_str()).collect();
    assert_eq!(versions, ["1.0", "1.1", "1.0", "1.1", "1.0"]);
}

#[support::test]
async fn histograms_have_the_same_bounds_in_sql_and_percentiles_are_at_most_13_percent_off(database: Database) {
    let bounds = sqlx::query_scalar::<_, Vec<f64>>(database.sql("SELECT {schema}._history_bounds()"));
    let bounds = bounds.fetch_one(database.pool()).await.unwrap();
    let own: Vec<_> = HistoryCounts::default().wait.buckets().filter_map(|(bound, _)| bound).collect();
    assert_eq!(bounds, own.iter().map(std::time::Duration::as_secs_f64).collect::<Vec<_>>());
    let off = "SELECT count(*) FROM generate_series(1, 2000) AS n, LATERAL (SELECT 0.001 * 1.009 ^ n) AS l (length)
        WHERE length < 80000 AND abs({schema}._history_percentile(
            {schema}._histogram(array_fill(length::double precision, ARRAY[20]))::integer[], 0.95) / length - 1) > 0.13";
    assert_eq!(database.number(off).await, 0);
}

#[support::test]
async fn a_role_whose_statements_are_serializable_writes_history(database: Database) {
    database.client.insert(Task { n: 1 }).await.unwrap();
    database.client.write_history().await.unwrap();
    let open = database.begin("UPDATE {schema}.history_total SET inserted = inserted").await;
    let serializable = |options: PgConnectOptions| options.options([("default_transaction_isolation", "serializable")]);
    let client = database.client_with(2, serializable).await;
    client.insert(Task { n: 2 }).await.unwrap();
    let writing = tokio::spawn(async move { client.write_history().await });
    database.until_locked("%history%", 1).await;
    open.commit().await.unwrap();
    writing.await.unwrap().unwrap();
    assert_eq!(total(&database.client).await.inserted, 2);
}

#[support::test]
async fn a_step_has_all_buckets_of_its_histograms(database: Database, client: &Client) {
    let counts = "jsonb_build_object('kind', '', 'queue', '', 'runs', array_fill(1, ARRAY[81]), 'run_seconds', 7)";
    let add = format!("SELECT {{schema}}._add_history(date_trunc('minute', now()), jsonb_build_array({counts}))");
    database.execute(&add).await;
    let run = Admin::new(client).history(HOUR).await.unwrap().total().run;
    assert_eq!((run.count(), run.sum()), (81, Duration::from_secs(7)));
    assert_eq!(run.quantile(1.0), Some(Duration::from_secs(80_000)));
}
