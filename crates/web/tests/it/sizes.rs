//! Pages stay below 100 KB, whatever jobs, keys and runners bring along.

use axum::Router;
use test_support::prelude::*;

use crate::support::{after, get, pages};

/// The largest page.
const MOST: usize = 100_000;

/// A name of 126 bytes, each of whose characters is spelled out.
fn hostile() -> String {
    "\u{202e}".repeat(42)
}

/// A key of 510 bytes.
fn hostile_key(number: usize) -> String {
    format!("{}{number:03}", "\u{202e}".repeat(169))
}

/// A page, which is not too large.
async fn page(router: &Router, path: &str) -> String {
    let page = get(router, path).await;
    assert!(page.body.len() < MOST, "{path}: {} bytes", page.body.len());
    page.body
}

/// Goes through all pages of a list. Returns the ids of its rows.
async fn rows(router: &Router, path: &str, before_id: &str) -> Vec<String> {
    let pages = pages(router, path).await;
    for page in &pages {
        assert!(page.len() < MOST, "{path}: {} bytes", page.len());
    }
    after(&pages.concat(), before_id)
}

#[test_support::test]
async fn a_job_with_a_mebibyte_of_everything_is_cut_and_says_how_to_get_the_rest(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    let job = NewJob::new("export", &json!({ "rows": "x".repeat((1 << 20) - 100) }));
    let id = database.client.insert(job.clone()).await.unwrap().id();
    let text = page(&router, &format!("/jobs/{id}")).await;
    assert!(text.contains(&format!("bytes. The whole: <code>uniqueue job show {id}</code>")), "{text}");
    // Each character of these is written with six or more.
    for filler in ["chr(8238)", "'\"<'"] {
        database.execute(
            &format!(
                "UPDATE {{schema}}.job SET state = 'discarded', finalized_at = now(), attempt = 3,
                     args = jsonb_build_object('a', repeat({filler}, 350000)),
                     meta = jsonb_build_object('a', repeat({filler}, 350000)),
                     output = to_jsonb(repeat({filler}, 350000)), progress = to_jsonb(repeat({filler}, 350000)),
                     errors = (
                         SELECT jsonb_agg(jsonb_build_object('attempt', n, 'at', now(), 'error', repeat({filler}, 20000)))
                         FROM generate_series(1, 40) AS n
                     )"
            ),
        )
        .await;
        // What other tabs were told lives two seconds.
        let router = uniqueue_web::router(database.client.clone());
        let text = page(&router, &format!("/jobs/{id}")).await;
        assert!(text.contains(" of 40. All of them: "), "{text}");
        assert!(text.contains("Without the first 15 failed attempts."), "{text}");
        assert_eq!(text.matches("bytes. The whole: ").count(), 4 + text.matches("<p class=\"note\">Attempt ").count());
    }
    // A job of usual size is whole, and can be copied.
    let small = database.client.insert(NewJob::new("export", &json!({ "rows": "<x>".repeat(500) }))).await.unwrap();
    let text = page(&router, &format!("/jobs/{}", small.id())).await;
    assert!(text.contains(&"&lt;x&gt;".repeat(500)) && !text.contains("The whole"), "{text}");
}

#[test_support::test]
async fn lists_of_hostile_jobs_keys_and_groups_are_cut_and_go_on_on_their_next_page(database: Database) {
    let client = &database.client;
    let router = uniqueue_web::router(client.clone());
    Admin::new(client).audit_duplicates(&hostile(), None).await.unwrap();
    let job = |number| {
        NewJob::new(hostile(), &json!({ hostile(): hostile() }))
            .queue(hostile())
            .group(hostile_key(number))
            .unique_key(UniqueKey::raw(hostile_key(number)))
    };
    let jobs = client.insert_many((0..60).map(job)).await.unwrap();
    client.insert_many((0..60).map(job)).await.unwrap();
    let mut ids: Vec<_> = jobs.iter().map(|job| job.id().to_string()).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(rows(&router, "/jobs", "id=\"job-").await, ids);
    assert_eq!(rows(&router, "/keys", "<a class=\"mono key\" href=\"").await.len(), 60);
    assert_eq!(rows(&router, "/groups?order=name", "<tr id=\"group-").await.len(), 60);
    for path in ["/groups", "/duplicates"] {
        let text = page(&router, path).await;
        assert!(text.contains("There are more"), "{path}: {text}");
    }
    let start = "UPDATE {schema}.job SET state = 'running', worker = gen_random_uuid(), attempted_at = now(),
        progress = to_jsonb(repeat(chr(8238), 1000))";
    database.execute(start).await;
    let text = page(&router, "/running").await;
    assert!(text.contains(" that run longest."), "{text}");
}

#[test_support::test]
async fn queues_of_hostile_names_go_on_on_their_next_page(database: Database) {
    let queue = |number: usize| format!("{}{number:02}", "\u{202e}".repeat(41));
    let jobs = (0..60).map(|number| NewJob::new("export", &json!({})).queue(queue(number)));
    database.client.insert_many(jobs).await.unwrap();
    let router = uniqueue_web::router(database.client.clone());
    assert!(page(&router, "/queues").await.contains("Next page"));
    assert_eq!(rows(&router, "/queues", "<tr id=\"queue-").await.len(), 60);
}

#[test_support::test]
async fn more_than_a_hundred_runners_kinds_and_periodic_jobs_are_cut(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    let fill = "
        INSERT INTO {schema}.runner (id, name, leased_until, queues, slots, knows_groups)
        SELECT gen_random_uuid(), 'worker-' || n, now() + interval '1 hour', ARRAY['default'], ARRAY[4], true
        FROM generate_series(1, 120) AS n;
        INSERT INTO {schema}.job (id, kind, state, finalized_at, errors)
        SELECT
            gen_random_uuid(), 'kind-' || n, 'discarded', now(),
            jsonb_build_array(jsonb_build_object('attempt', 1, 'at', now(), 'error', repeat('<', 300)))
        FROM generate_series(1, 120) AS n";
    database.execute(fill).await;
    for number in 0..110 {
        let job = PeriodicJob::cron(format!("job-{number}"), "0 3 * * *", NewJob::new("sweep", &json!({})));
        database.client.define_periodic(job).await.unwrap();
    }
    for path in ["/runners", "/failing", "/periodic"] {
        let text = page(&router, path).await;
        let shown = text.matches("<th class=\"l1\" scope=\"row\">").count();
        assert!((50..=100).contains(&shown), "{path}: {shown}");
        assert!(text.contains(&format!("The first {shown} are shown. There are more.")), "{path}: {text}");
    }
    // Long hostile names of many queues.
    let rename = format!(
        "UPDATE {{schema}}.runner SET name = '{0}', queues = array_fill('{0}'::text, ARRAY[60]), slots = NULL",
        hostile()
    );
    database.execute(&rename).await;
    // What other tabs were told lives two seconds.
    let router = uniqueue_web::router(database.client.clone());
    let text = page(&router, "/runners").await;
    assert!(text.contains(" and 40 more") && text.contains("There are more."), "{text}");
}
