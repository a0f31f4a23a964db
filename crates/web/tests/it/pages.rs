//! The contents of the pages.

use axum::http::StatusCode;
use test_support::prelude::*;
use tokio::time::{Instant, sleep};
use uniqueue_web::{Access, Web};

use crate::support::{after, coded, get, pages, request, send, slow_down};

/// The links to jobs on a page, each once.
fn jobs_on(page: &str) -> Vec<String> {
    after(page, "id=\"job-")
}

#[test_support::test]
async fn a_failure_keeps_the_navigation(database: Database) {
    let router = Web::new(database.client.clone()).access(|_| Access::all()).router();
    let missing = get(&router, &format!("/jobs/{}", JobId::generate())).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.body.contains("There is no such job."), "{}", missing.body);
    assert!(missing.body.contains("<nav") && missing.body.contains("app.css"), "{}", missing.body);
    let bad = send(&router, request("POST", "/queues/change", "queue=a&verb=limit&limit=x")).await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    assert!(bad.body.contains("limit is not valid") && bad.body.contains("<nav"), "{}", bad.body);
    assert!(bad.body.contains("name=\"back\" value=\"\""), "a form's path is no page: {}", bad.body);
}

#[test_support::test]
async fn pages_of_jobs_meet_every_job_once(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    let jobs = (0..120).map(|n| NewJob::new("resize", &json!({ "n": n })));
    let inserted = database.client.insert_many(jobs).await.unwrap();
    let seen = jobs_on(&pages(&router, "/jobs?kind=resize").await.concat());
    let mut expected: Vec<_> = inserted.iter().map(|one| one.id().to_string()).collect();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(seen, expected);
}

#[test_support::test]
async fn jobs_are_found_by_their_args(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    for n in 0..3 {
        database.client.insert(NewJob::new("resize", &json!({ "n": n }))).await.unwrap();
    }
    let page = get(&router, "/jobs?args=%7B%22n%22%3A1%7D").await.body;
    assert_eq!(jobs_on(&page).len(), 1);
    // A filter that is no JSON is searched as text.
    assert_eq!(jobs_on(&get(&router, "/jobs?args=n:+1").await.body).len(), 1);
    let page = get(&router, "/jobs?args=%7Bn").await.body;
    assert!(page.contains("No job meets these conditions."), "{page}");
}

#[test_support::test]
async fn failed_jobs_are_counted_and_found_by_the_code_of_their_error(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    let jobs = ["declined", "busy"].map(|code| NewJob::new("charge", &json!({ "code": code })));
    let inserted = database.client.insert_many(jobs).await.unwrap();
    let fail = "UPDATE {schema}.job SET state = 'discarded', finalized_at = now(),
        errors = jsonb_build_array(jsonb_build_object('attempt', 1, 'at', now(), 'error', 'no') || args)";
    database.execute(fail).await;
    let found = get(&router, "/jobs?state=discarded&code=declined").await.body;
    assert_eq!(jobs_on(&found), [inserted[0].id().to_string()]);
    let failing = get(&router, "/failing").await.body;
    assert!(failing.contains("declined") && failing.contains("busy"), "{failing}");
}

#[test_support::test]
async fn a_condition_of_the_url_stays_through_a_search_and_is_removed_by_its_chip(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    for path in ["/jobs?attempts=2", "/jobs?state=running&state=retryable&attempts=2&since=7d&order=oldest&kind=a"] {
        let page = get(&router, path).await.body;
        let form = page.split("<form class=\"row search\"").nth(1).unwrap().split("</form>").next().unwrap();
        for pair in path.split_once('?').unwrap().1.split('&') {
            let (name, value) = pair.split_once('=').unwrap();
            assert!(form.contains(&format!("name=\"{name}\" value=\"{value}\"")), "{pair}: {form}");
        }
        let chip = page.split("<a class=\"chip word\" href=\"").find(|part| part.contains("attempts ≥ ")).unwrap();
        assert!(!chip.split('"').next().unwrap().contains("attempts"), "{chip}");
        assert!(page.contains("--attempts-at-least 2"), "{page}");
    }
}

#[test_support::test]
async fn a_search_that_is_stopped_shows_what_it_found_and_goes_on_from_there(database: Database) {
    let client = &database.client;
    let router = uniqueue_web::router(client.clone());
    let now = client.database_time().await.unwrap();
    let days_ago = JobId::first_at(now - Duration::from_secs(3 * 86_400));
    let young = client.insert(NewJob::new("a", &json!({ "n": 1 }))).await.unwrap().id();
    let old = client.insert(NewJob::new("a", &json!({ "n": 1 })).id(days_ago)).await.unwrap().id();
    // Each old row takes longer than a search may.
    slow_down(&database, "1 day", 60.0).await;
    let page = get(&router, "/jobs?since=all&args=%7B%22n%22%3A1%7D").await.body;
    assert_eq!(jobs_on(&page), [young.to_string()], "{page}");
    assert!(page.contains("was stopped. The jobs since "), "{page}");
    database.execute("DROP VIEW {schema}.job; ALTER TABLE {schema}.job_rows RENAME TO job").await;
    let on = page.split(" href=\"").find(|part| part.contains("Search the jobs before")).unwrap();
    let page = get(&router, &on.split('"').next().unwrap().replace("&amp;", "&")).await.body;
    assert_eq!(jobs_on(&page), [old.to_string()], "{page}");
    assert!(!page.contains("was stopped"), "{page}");
}

#[test_support::test(with_connections(1))]
async fn a_search_is_stopped_two_seconds_after_its_request_also_where_it_waited_for_a_connection(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    database.client.insert(NewJob::new("a", &json!({ "n": 1 }))).await.unwrap();
    slow_down(&database, "0 s", 60.0).await;
    for path in ["/jobs?since=all", "/jobs?since=all&args=%7B%22n%22%3A1%7D"] {
        let held = database.pool().acquire().await.unwrap();
        let release = async {
            sleep(Duration::from_millis(1_500)).await;
            drop(held);
        };
        let started = Instant::now();
        let (page, ()) = tokio::join!(get(&router, path), release);
        let took = started.elapsed();
        assert!(page.body.contains("was stopped."), "{path}: {}", page.body);
        assert!((Duration::from_millis(1_500)..Duration::from_secs(3)).contains(&took), "{path}: {took:?}");
    }
}

#[test_support::test]
async fn the_page_of_a_job_shows_what_updates_did_to_it(database: Database, client: &Client) {
    let router = uniqueue_web::router(client.clone());
    let job = |item: u32| {
        let key = UniqueKey::raw("index").update(Update::append());
        NewJob::new("index", &json!({ "items": [item] })).unique_key(key)
    };
    let id = client.insert(job(1)).await.unwrap().id();
    let mut last = id;
    for item in 2..=4 {
        last = JobId::generate();
        assert!(client.insert(job(item).id(last)).await.unwrap().updated);
    }
    let page = get(&router, &format!("/jobs/{id}")).await.body;
    assert!(page.contains("3 times by duplicates, last "), "{page}");
    assert!(page.contains(&format!(", by the insert with id <span class=\"mono\">{last}</span>")), "{page}");
    assert!(page.contains("updated by a duplicate, the last of 3 updates"), "{page}");
    let other = client.insert(NewJob::new("index", &json!({}))).await.unwrap().id();
    assert!(!get(&router, &format!("/jobs/{other}")).await.body.contains("pdated"));
}

#[test_support::test]
async fn redacted_jobs_are_hidden_and_cannot_be_searched(database: Database) {
    let id = database.client.insert(NewJob::new("mail", &json!({"to": "secret"}))).await.unwrap().id();
    let redact = |job: &mut uniqueue::JobRow| {
        job.args = serde_json::value::to_raw_value("hidden").unwrap();
    };
    let router = Web::new(database.client.clone()).redact(redact).router();
    for path in ["/jobs".to_owned(), format!("/jobs/{id}")] {
        let page = get(&router, &path).await.body;
        assert!(page.contains("hidden") && !page.contains("secret"), "{path}: {page}");
    }
    let page = get(&router, "/jobs?args=%7B%22to%22%3A%22secret%22%7D").await;
    assert!(page.body.contains("cannot be searched"), "{}", page.body);
}

#[test_support::test]
async fn the_policy_lab_shows_what_would_have_collapsed_and_changes_nothing(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    for user in [1, 1, 2] {
        database.client.insert(NewJob::new("mail", &json!({ "user": user }))).await.unwrap();
    }
    let policy = "%7B%22keys%22%3A%5B%22type%22%2C%22args%22%5D%7D";
    let page = get(&router, &format!("/explain?kind=mail&policy={policy}&what=lab")).await.body;
    assert!(page.contains("<b class=\"number\">1</b> of <b class=\"number\">3</b>"), "{page}");
    assert!(Admin::new(&database.client).claims().await.unwrap().is_empty());
    let page =
        get(&router, &format!("/explain?kind=mail&args=%7B%22user%22%3A9%7D&policy={policy}&what=insert")).await.body;
    assert!(page.contains("The key is free"), "{page}");
}

#[test_support::test]
async fn the_policy_lab_replays_the_inserts_of_a_time_with_finished_jobs(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    // Each job's user, the minutes since its insert and its end, and its state.
    let jobs = "
        INSERT INTO {schema}.job (id, kind, args, state, attempt, created_at, scheduled_at, attempted_at, finalized_at)
        SELECT
            ({schema}.id_at(now() - inserted * interval '1 minute')::text::uuid), 'mail', jsonb_build_object('user', u),
            state::{schema}.job_state, 1, now() - inserted * interval '1 minute', now() - inserted * interval '1 minute',
            now() - (ended + 1) * interval '1 minute', now() - ended * interval '1 minute'
        FROM (VALUES
            (50, 1, 40, 'completed'),  -- the first of the user
            (45, 1, 44, 'completed'),  -- meets it
            (39, 1, 35, 'discarded'),  -- after its end
            (36, 2, 30, 'completed'),  -- another user
            (34, 1, 20, 'completed'),  -- after the discarded one
            (21, 1, 19, 'cancelled'),  -- meets the one before
            (3000, 2, 2990, 'completed')  -- two days ago
        ) AS t (inserted, u, ended, state)";
    database.execute(jobs).await;
    let lab = async |policy: serde_json::Value, since: &str| {
        let policy = coded(&policy.to_string());
        let page = get(&router, &format!("/explain?kind=mail&what=lab&policy={policy}&since={since}")).await.body;
        let numbers: Vec<&str> =
            page.split("<b class=\"number\">").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
        assert!(numbers.len() >= 2, "{page}");
        (numbers[0].to_owned(), numbers[1].to_owned(), page)
    };
    let of = |met: &str, jobs: &str| (met.to_owned(), jobs.to_owned());
    let active = ["pending", "scheduled", "available", "running", "retryable"];
    let policy = json!({"keys": ["type", "args"], "states": active});
    let (met, jobs, page) = lab(policy.clone(), "24h").await;
    assert_eq!((met, jobs), of("2", "6"), "{page}");
    assert!(
        page.contains("Would have been inserted</dt><dd>4<") && !page.contains("uniqueue unique backfill"),
        "{page}"
    );
    // Those that ended claim as well.
    let ended = [&active[..], &["completed", "discarded", "cancelled"]].concat();
    let (met, jobs, page) = lab(json!({"keys": ["type", "args"], "states": ended}), "24h").await;
    assert_eq!((met, jobs), of("4", "6"), "{page}");
    let (met, jobs, page) = lab(json!({"keys": ["type", "args"], "states": ended}), "all").await;
    assert_eq!((met, jobs), of("5", "7"), "the job of two days ago claims its key still: {page}");
    let (met, jobs, page) = lab(json!({"keys": ["type", "args"], "states": ended, "period": "PT12M"}), "24h").await;
    assert_eq!((met, jobs), of("2", "6"), "the third one came within twelve minutes of the first: {page}");
    // What a backfill would do looks at jobs by their state now.
    let (met, jobs, page) = lab(policy, "queued").await;
    assert_eq!((met, jobs), of("0", "0"), "{page}");
    assert!(page.contains("uniqueue unique backfill"), "{page}");
}

#[test_support::test]
async fn the_policy_lab_says_how_far_it_came_when_its_time_is_over(database: Database) {
    // As on a large table, jobs are read in the order of their ids, and not all of them first.
    let plans = [("enable_seqscan", "off"), ("enable_bitmapscan", "off"), ("enable_sort", "off")];
    let options = database.pool().connect_options().as_ref().clone().options(plans);
    let pool = PgPoolOptions::new().max_connections(5).connect_with(options).await.unwrap();
    let router = uniqueue_web::router(Client::builder().schema(database.client.schema().clone()).pool(pool));
    // Pages of the lab have 1,000 jobs. The last job takes longer to read than the lab may take.
    let jobs = "
        INSERT INTO {schema}.job (id, kind, created_at, args)
        SELECT
            {schema}.id_at(now() - (2000 - n) * interval '1 second'), 'mail', now() - (2000 - n) * interval '1 second',
            jsonb_build_object('user', n % 500, 'slow', n = 1001)
        FROM generate_series(1, 1001) AS n;
        ALTER TABLE {schema}.job RENAME TO job_rows;
        CREATE VIEW {schema}.job AS SELECT * FROM {schema}.job_rows
        WHERE CASE WHEN args @> '{\"slow\": true}' THEN pg_sleep(60) IS NOT NULL ELSE true END";
    database.execute(jobs).await;
    let policy = "%7B%22keys%22%3A%5B%22type%22%2C%22args%22%5D%7D";
    let page = get(&router, &format!("/explain?kind=mail&policy={policy}&what=lab")).await.body;
    assert!(page.contains("There was time for the jobs that were inserted before "), "{page}");
    assert!(page.contains("<b class=\"number\">500</b> of <b class=\"number\">1,000</b>"), "{page}");
    assert!(page.contains(" are shown. There are more.") && page.len() < 100_000, "{page}");
}

#[test_support::test]
async fn a_path_without_a_page_is_a_page_that_says_so(database: Database) {
    let answer = get(&uniqueue_web::router(database.client.clone()), "/nothing").await;
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("There is no such page."), "{}", answer.body);
}

#[test_support::test]
async fn a_job_that_was_discarded_failed_before(database: Database) {
    let id = database.client.insert(NewJob::new("mail", &serde_json::json!({}))).await.unwrap().id();
    let fail = "UPDATE {schema}.job SET state = 'discarded', finalized_at = now(), attempted_at = now() - interval '1 s', attempt = 1,
        errors = jsonb_build_array(jsonb_build_object('attempt', 1, 'at', now() + interval '2 ms', 'error', 'no'))";
    database.execute(fail).await;
    let page = get(&uniqueue_web::router(database.client.clone()), &format!("/jobs/{id}")).await.body;
    let timeline = page.split("class=\"timeline\"").nth(1).unwrap();
    let place = |text: &str| timeline.find(text).unwrap();
    assert!(place("attempt 1 failed") < place(">discarded"), "{timeline}");
}

#[test_support::test]
async fn a_step_that_waits_for_its_parents_is_not_to_be_released(database: Database, client: &Client) {
    let job = || NewJob::new("mail", &serde_json::json!({}));
    let parent = client.insert(job()).await.unwrap();
    let child = client.insert(job().after(&parent)).await.unwrap().id();
    let held = client.insert(job().pending()).await.unwrap().id();
    let router = uniqueue_web::Web::new(client.clone()).access(|_| uniqueue_web::Access::all()).router();
    let page = get(&router, &format!("/jobs/{child}")).await.body;
    assert!(
        page.contains(">Release without waiting</button>")
            && !page.contains("class=\"primary\" name=\"verb\" value=\"release\""),
        "{page}"
    );
    let page = get(&router, &format!("/jobs/{held}")).await.body;
    assert!(page.contains("value=\"release\">Release</button>"), "{page}");
}
