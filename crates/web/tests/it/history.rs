//! The charts of history and the page of a kind.

use test_support::prelude::*;
use uniqueue_web::{Access, Web};

use crate::support::{get, request, send};

/// A job of the kind `mail` that was discarded with this error.
async fn failed(database: &Database, error: &str) {
    let id = database.client.insert(NewJob::new("mail", &json!({}))).await.unwrap().id();
    let errors =
        json!([{ "attempt": 1, "at": "2026-01-15T09:30:00Z", "error": error }]).to_string().replace('\'', "''");
    let fail = format!(
        "UPDATE {{schema}}.job SET state = 'discarded', finalized_at = now(), attempt = 1, errors = '{errors}' WHERE id = '{id}'"
    );
    database.execute(&fail).await;
}

#[test_support::test]
async fn charts_have_axes_units_a_range_and_a_read_out_of_each_point(database: Database) {
    database.execute(
        r#"SELECT {schema}._add_history(now() - interval '5 minutes', jsonb_build_array(
            '{"kind": "mail", "queue": "default", "inserted": 40, "completed": 30, "failed": 7, "waits": [0, 0, 0, 0, 0, 0, 0, 37], "runs": [0, 0, 0, 0, 37]}'::jsonb,
            '{"kind": "", "queue": "default", "inserted": 40, "completed": 30, "failed": 7, "waits": [0, 0, 0, 0, 0, 0, 0, 37], "runs": [0, 0, 0, 0, 37]}'::jsonb,
            '{"kind": "", "queue": "", "inserted": 40, "completed": 30, "failed": 7, "waits": [0, 0, 0, 0, 0, 0, 0, 37], "runs": [0, 0, 0, 0, 37]}'::jsonb
        ));
        INSERT INTO {schema}.deploy (at, version) VALUES (now() - interval '10 minutes', '1.4 <b>');
        INSERT INTO {schema}.job (id, kind, queue) SELECT {schema}.new_job_id(), 'mail', 'default'"#,
    )
    .await;
    let router = uniqueue_web::router(database.client.clone());
    let hour = get(&router, "/history").await.body;
    for part in [
        "inserted 40",
        "completed 30",
        "failed 7",
        "p95 ",
        "1.4 &lt;b&gt;",
        "a minute",
        " UTC",
        "/kind?kind=mail&amp;range=1h",
        "40 inserted, 0 duplicates, 30 completed, 7 failed",
        "uniqueue stats --since 1h",
    ] {
        assert!(hour.contains(part), "{part}: {hour}");
    }
    assert_eq!(hour.matches("<figure").count(), 4);
    let week = get(&router, "/history?range=7d").await.body;
    assert!(week.contains("aria-current=\"true\">7d</a>") && week.contains("40 inserted, 0 duplicates"), "{week}");
    for page in ["/kind?kind=mail&range=24h", "/queue?queue=default"] {
        let body = get(&router, page).await.body;
        assert!(body.contains("40 inserted"), "{page}: {body}");
    }
    let metrics = get(&router, "/metrics").await.body;
    for line in [
        "uniqueue_queue_completed_total{queue=\"default\"} 30",
        "uniqueue_queue_wait_seconds_bucket{queue=\"default\",le=\"0.005\"} 37",
        "uniqueue_queue_wait_seconds_bucket{queue=\"default\",le=\"+Inf\"} 37",
        "uniqueue_queue_run_seconds_count{queue=\"default\"} 37",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test_support::test]
async fn errors_of_a_kind_are_grouped_and_each_group_can_be_retried(database: Database) {
    for error in ["no route to 10.0.0.1: try 17", "no route to 10.0.0.2: try 4", "bad <address>"] {
        failed(&database, error).await;
    }
    let router = Web::new(database.client.clone()).access(|_| Access::all()).router();
    let page = get(&router, "/kind?kind=mail").await.body;
    assert!(page.contains("no route to #: try #") && page.contains("bad &lt;address&gt;"), "{page}");
    assert!(page.contains("is not registered"), "{page}");
    // Errors of more jobs than a page reads come later, and hide no older one.
    let insert = "INSERT INTO {schema}.job (id, kind, queue, state, attempt, finalized_at, errors)
        SELECT {schema}.new_job_id(), 'mail', 'default', 'discarded', 1, now(),
            jsonb_build_array(jsonb_build_object('attempt', 1, 'at', now(), 'error', 'timeout after ' || n || ' s'))
        FROM generate_series(1, 350) AS n";
    database.execute(insert).await;
    let page = get(&router, "/kind?kind=mail").await.body;
    for part in ["timeout after # s", ">350</td>", "no route to #: try #", "bad &lt;address&gt;"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The form of the first group, which has the most jobs, names its filter.
    let form = page.split("action=\"/bulk\"").nth(1).unwrap().split("</form>").next().unwrap();
    assert!(
        form.contains("name=\"error-pattern\" value=\"timeout after # s\"") && !form.contains("name=\"id\""),
        "{form}"
    );
    let body =
        "whole=all&kind=mail&state=retryable&state=discarded&since=all&error-pattern=timeout+after+%23+s&verb=retry";
    let plan = send(&router, request("POST", "/bulk", body)).await.header("location").to_owned();
    assert!(plan.starts_with("/bulk/"), "{plan}");
    let shown = get(&router, &plan).await.body;
    assert!(
        shown.contains("--error-pattern &#39;timeout after # s&#39;")
            || shown.contains("--error-pattern 'timeout after # s'"),
        "{shown}"
    );
    assert_eq!(send(&router, request("POST", &format!("{plan}/run"), "")).await.status.as_u16(), 303);
    let client = &database.client;
    let available = || JobFilter::new().states(JobState::Available);
    eventually!(
        let retried = client.count_jobs(available(), 1_000).await.unwrap().counted();
        retried == 350,
        "{retried} retried"
    );
    let reader = uniqueue_web::router(database.client.clone());
    assert!(!get(&reader, "/kind?kind=mail").await.body.contains("action=\"/bulk\""));
}

#[test_support::test]
async fn errors_of_redacted_jobs_are_neither_shown_nor_searched(database: Database) {
    failed(&database, "secret 17").await;
    let router = Web::new(database.client.clone()).access(|_| Access::all()).redact(|_| {}).router();
    let page = get(&router, "/kind?kind=mail").await.body;
    assert!(page.contains("hidden") && !page.contains("secret") && !page.contains("action=\"/bulk\""), "{page}");
    assert_eq!(get(&router, "/jobs?since=all&error-pattern=secret+%23").await.status, 400);
}

#[test_support::test]
async fn a_list_of_kinds_says_that_there_are_more(database: Database) {
    let call = "SELECT {schema}._add_history(now() - interval '5 minutes', jsonb_agg(
            jsonb_build_object('kind', 'kind ' || n, 'queue', 'default', 'completed', 1)))
        FROM generate_series(1, 51) AS n";
    database.execute(call).await;
    let page = get(&uniqueue_web::router(database.client.clone()), "/history").await.body;
    assert!(page.contains("The first 50 are shown. There are more."), "{page}");
}

#[test_support::test]
async fn the_page_of_a_kind_stands_without_the_history(database: Database) {
    failed(&database, "bad address").await;
    database.execute("ALTER TABLE {schema}.history RENAME TO hidden").await;
    let router = uniqueue_web::router(database.client.clone());
    let answer = get(&router, "/kind?kind=mail").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body.contains("bad address"), "{}", answer.body);
}

#[test_support::test]
async fn open_pages_share_the_history_over_refreshes_and_changes(database: Database) {
    database.execute(
        r#"SELECT {schema}._add_history(now() - interval '5 minutes', jsonb_build_array(
            '{"kind": "mail", "queue": "mails", "inserted": 40}'::jsonb, '{"kind": "", "queue": "mails", "inserted": 40}'::jsonb,
            '{"kind": "", "queue": "", "inserted": 40}'::jsonb
        ));
        INSERT INTO {schema}.job (id, kind, queue) SELECT {schema}.new_job_id(), 'mail', 'mails'"#,
    )
    .await;
    let router = Web::new(database.client.clone()).access(|_| Access::all()).router();
    let paths = ["/history", "/queue?queue=mails"];
    // Each page shows what it read last, so an answer with 41 was read after the first one.
    let read = async |router: &axum::Router, count: &str| {
        for path in paths {
            let (one, other) = tokio::join!(get(router, path), get(router, path));
            for page in [one, other] {
                assert!(page.body.contains(&format!("{count} inserted")), "{path}: {}", page.body);
            }
        }
    };
    let began = Instant::now();
    read(&router, "40").await;
    database.execute("UPDATE {schema}.history SET inserted = 41").await;
    for verb in ["pause", "resume", "pause"] {
        // A change makes most answers old.
        let form = format!("queue=mails&verb={verb}");
        assert_eq!(send(&router, request("POST", "/queues/change", &form)).await.status.as_u16(), 303);
        if began.elapsed() > Duration::from_secs(15) {
            break;
        }
        read(&router, "40").await;
    }
    // Another dashboard reads it for itself.
    read(&uniqueue_web::router(database.client.clone()), "41").await;
}

/// Reads the list of kinds over a week as the library does. Returns the pages of the buffer cache that it took.
async fn pages_of_the_week(database: &Database) -> u64 {
    let statement = include_str!("../../../admin/src/sql/history_by_kind.sql");
    let statement = statement.replace("/* schema */", "{schema}.");
    let statement = statement.replace("$1", r#"'{"span": "day", "since": 604800, "limit": 50}'"#);
    let explain = database.sql(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"));
    let plan: Value = sqlx::query_scalar(explain).fetch_one(database.pool()).await.unwrap();
    let read = |name: &str| plan[0]["Plan"][name].as_u64().unwrap();
    assert_eq!(plan[0]["Plan"]["Actual Rows"].as_f64(), Some(50.0), "{plan}");
    read("Shared Hit Blocks") + read("Shared Read Blocks")
}

#[test_support::test]
async fn a_week_of_a_thousand_kinds_and_a_hundred_queues_keeps_pages_small_and_quick(database: Database) {
    // Every minute of an hour, every hour of two days and every day of a week, of a thousand kinds, each in one of a hundred
    // queues. Then one kind in all queues, and the sums over the kinds, with every minute of a day and every hour of a
    // week.
    database.execute(
        "INSERT INTO {schema}.history (at, inserted, duplicates, completed, failed, discarded, wait_seconds, run_seconds, span, kind, queue, waits, runs)
        SELECT s.at, 10, 1, 9, n % 3, 0, 1, 1, s.span, 'kind ' || n, 'queue ' || n % 100, '{0,0,5,4,1,1}', '{0,0,0,5,4,1,1}'
        FROM (
            SELECT t.span, date_trunc(t.span, now(), 'UTC') - n * ('1 ' || t.span)::interval AS at
            FROM (VALUES ('day', 7), ('hour', 48), ('minute', 60)) AS t (span, steps), generate_series(t.steps, 0, -1) AS n
        ) AS s
        CROSS JOIN generate_series(1, 1000) AS n
        ORDER BY s.at;
        INSERT INTO {schema}.history (at, inserted, duplicates, completed, failed, discarded, wait_seconds, run_seconds, span, kind, queue, waits, runs)
        SELECT s.at, 100, 10, 90, 10, 0, 1, 1, s.span, k.kind, k.queue, '{0,0,5,4,1,1,9,9,9,9}', '{0,0,0,5,4,1,1,9,9,9,9}'
        FROM (
            SELECT t.span, date_trunc(t.span, now(), 'UTC') - n * ('1 ' || t.span)::interval AS at
            FROM (VALUES ('day', 7), ('hour', 168), ('minute', 1440)) AS t (span, steps), generate_series(t.steps, 0, -1) AS n
        ) AS s
        CROSS JOIN (
            SELECT '', ''
            UNION ALL SELECT kind, 'queue ' || q % 100 FROM (VALUES (''), ('kind 7')) AS s (kind), generate_series(1, 100) AS q
        ) AS k (kind, queue)
        ORDER BY s.at
        ON CONFLICT DO NOTHING;
        ANALYZE {schema}.history;
        INSERT INTO {schema}.job (id, kind, queue, state, attempt, finalized_at, errors)
        SELECT
            {schema}.new_job_id(), 'kind ' || n, 'queue ' || n % 100, s.state::{schema}.job_state, 1, s.finalized_at,
            jsonb_build_array(jsonb_build_object('attempt', 1, 'at', now(), 'error', 'timeout after ' || n || ' s'))
        FROM generate_series(1, 1000) AS n, (VALUES ('discarded', now()), ('available', NULL)) AS s (state, finalized_at);
        SELECT FROM generate_series(1, 1000) AS n, {schema}.register_kind('kind ' || n, queue => 'queue ' || n % 100);
        ANALYZE {schema}.job",
    )
    .await;
    let pages = pages_of_the_week(&database).await;
    assert!(pages < 1_000, "the kinds of a week take {pages} pages");
    let longest = if cfg!(debug_assertions) { Duration::from_millis(500) } else { Duration::from_millis(100) };
    for path in [
        "/history?range=1h",
        "/history?range=24h",
        "/history?range=7d",
        "/kind?kind=kind%207",
        "/kind?kind=kind%207&range=24h",
        "/kind?kind=kind%207&range=7d",
        "/queue?queue=queue%207&range=7d",
        "/",
        "/queues",
        "/kinds",
        "/failing",
        "/search?q=ind%207",
        "/jobs",
    ] {
        // The quickest of a few: other tests run meanwhile.
        let (mut quickest, mut bytes) = (Duration::MAX, 0);
        for _ in 0..5 {
            // A dashboard of its own shares no answer with the ones before. Its first page waits for a sample.
            let router = uniqueue_web::router(database.client.clone());
            get(&router, "/doctor").await;
            let began = Instant::now();
            let answer = get(&router, path).await;
            quickest = quickest.min(began.elapsed());
            assert_eq!(answer.status, 200, "{path}");
            bytes = answer.body.len();
            assert!(bytes < 100_000, "{path}: {bytes} bytes");
            if quickest < longest {
                break;
            }
        }
        println!("{path}: {quickest:?}, {bytes} bytes");
        assert!(quickest < longest, "{path}: {quickest:?}");
    }
}
