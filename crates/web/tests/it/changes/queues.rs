//! Changes of queues, groups, periodic jobs and the audit, and inserts.

use axum::Router;
use axum::http::StatusCode;
use test_support::prelude::*;
use uniqueue_web::{Access, Web};

use super::{dashboard, insert, job, post};
use crate::support::{coded, get};

#[test_support::test]
async fn a_queue_is_changed_by_its_form(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    // A name that a path could not hold.
    let change = async |body: &str| post(&router, "/queues/change", &format!("queue=..%2F%3F&{body}")).await.status;
    for body in [
        "verb=pause",
        "verb=limit&limit=3",
        "verb=limit_groups&limit=2",
        "verb=rate&count=10&period=1&period_unit=m&burst=20",
        "verb=rate_groups&count=1&period=0.5&burst=",
        "verb=hold&hold_for=1&hold_for_unit=h",
        "verb=max_waiting&limit=12345",
        "verb=fair",
        "verb=keep&state=completed&days=0.5",
    ] {
        assert_eq!(change(body).await, StatusCode::SEE_OTHER, "{body}");
    }
    let settings = client.queue("../?").settings().await.unwrap();
    assert!(settings.paused_at.is_some());
    assert_eq!((settings.limit, settings.group_limit, settings.fair), (Some(3), Some(2), true));
    assert_eq!(settings.rate, Some(Rate::per(10, Duration::from_secs(60)).burst(20)));
    assert_eq!(settings.group_rate, Some(Rate::per(1, Duration::from_millis(500))));
    let held_for = settings.held_until.unwrap() - client.database_time().await.unwrap();
    assert!(held_for.whole_minutes() == 59 || held_for.whole_minutes() == 60, "{held_for}");
    assert_eq!(settings.max_waiting, Some(12_345));
    assert_eq!(settings.keep_completed, uniqueue::Keep::For(Duration::from_secs(43_200)));
    let page = get(&router, "/queues").await.body;
    assert!(page.contains("paused") && page.contains(" of 12,345"), "the page shows the change at once: {page}");
    assert!(page.contains(">held<") && page.contains("10/1m, burst 20") && page.contains("1/500ms a group"), "{page}");
    let page = get(&router, "/queue?queue=..%2F%3F").await.body;
    assert!(page.contains(">held<") && page.contains(" · up to 20 start at once"), "{page}");
    assert!(
        page.contains("uniqueue queue list &#39;../?&#39;") || page.contains("uniqueue queue list '../?'"),
        "{page}"
    );
    let log = Admin::new(client).change_log().await.unwrap();
    let has = |verb: &str, subject: serde_json::Value| {
        log.iter().any(|one| one.verb == verb && one.actor == "ada" && one.subject == subject)
    };
    let rate = json!({"queue": "../?", "rate": {"burst": 20, "count": 10, "period": 60.0}});
    assert!(has("set_queue", rate), "{log:?}");
    assert!(has("hold_queue", json!({"queue": "../?", "seconds": 3600.0})), "{log:?}");
    for body in [
        "verb=resume",
        "verb=limit&limit=",
        "verb=limit_groups&limit=",
        "verb=no_rate",
        "verb=no_group_rate&count=5&period=",
        "verb=max_waiting&limit=",
        "verb=not_fair",
        "verb=keep_default&state=completed",
    ] {
        assert_eq!(change(body).await, StatusCode::SEE_OTHER, "{body}");
    }
    let settings = client.queue("../?").settings().await.unwrap();
    assert_eq!((settings.paused_at, settings.limit), (None, None));
    assert_eq!((settings.group_limit, settings.fair, settings.max_waiting), (None, false, None));
    assert_eq!((settings.rate, settings.group_rate, settings.held_until), (None, None, None));
    for body in [
        "verb=rate&count=0&period=1",
        "verb=rate&count=&period=1",
        "verb=rate&count=1&period=",
        "verb=rate&count=1&period=1&period_unit=y",
        "verb=rate&count=1&period=32&period_unit=d",
        "verb=rate&count=1&period=1&burst=0",
        "verb=hold&hold_for=-1",
        "verb=hold&hold_for=NaN",
        "verb=hold",
    ] {
        assert_eq!(change(body).await, StatusCode::BAD_REQUEST, "{body}");
    }
    assert_eq!(change("verb=limit&limit=0").await, StatusCode::BAD_REQUEST);
    assert_eq!(change("verb=limit_groups&limit=0").await, StatusCode::BAD_REQUEST);
    assert_eq!(change("verb=max_waiting&limit=0").await, StatusCode::BAD_REQUEST);
    assert_eq!(change("verb=keep&state=completed&days=NaN").await, StatusCode::BAD_REQUEST);
    assert_eq!(change("verb=keep&state=running&days=1").await, StatusCode::BAD_REQUEST);
}

#[test_support::test]
async fn a_group_is_held_and_resumed_by_its_page(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    client
        .queue("mail")
        .set(QueueChanges::new().group_rate(Some(Rate::per(3, Duration::from_secs(60)))))
        .await
        .unwrap();
    let names = "queue=mail&group=customer%3A1%2F%26";
    // A group without jobs can be held too.
    let answer = post(&router, "/groups/change", &format!("{names}&verb=hold&hold_for=2&hold_for_unit=h")).await;
    let page = get(&router, answer.header("location")).await.body;
    assert!(page.contains(">held<") && page.contains("None of its jobs is available or runs"), "{page}");
    assert!(page.contains("The group is held.") && page.contains("3/1m"), "{page}");
    let held = Admin::new(client).held_groups().await.unwrap();
    assert_eq!((held.len(), held[0].group.as_str()), (1, "customer:1/&"));
    client.insert(NewJob::new("mail", &json!({})).queue("mail").group("customer:1/&")).await.unwrap();
    for path in ["/groups", "/groups?queue=mail&order=name"] {
        let list = get(&router, path).await.body;
        assert!(list.contains("Held by a worker or by hand") && list.contains("is held until"), "{list}");
        assert!(list.contains("/group?queue=mail&amp;group=customer%3A1%2F%26"), "{list}");
    }
    assert!(!get(&router, "/groups?queue=other").await.body.contains("Held by a worker"));
    let page = get(&router, &format!("/group?{names}")).await.body;
    assert!(page.contains("is held until") && page.contains("data-countdown"), "{page}");
    for (verb, did) in [("resume", "The hold has ended."), ("resume", "The group was not held.")] {
        let answer = post(&router, "/groups/change", &format!("{names}&verb={verb}")).await;
        let page = get(&router, answer.header("location")).await.body;
        assert!(page.contains(did) && !page.contains(">held<"), "{page}");
    }
    assert_eq!(Admin::new(client).held_groups().await.unwrap(), []);
    let log = Admin::new(client).change_log().await.unwrap();
    let verbs: Vec<_> = log.iter().map(|one| (one.actor.as_str(), one.verb.as_str())).collect();
    assert_eq!(verbs, [("ada", "resume_group"), ("ada", "resume_group"), ("ada", "hold_group")]);
    for body in ["verb=hold", "verb=hold&hold_for=x", "verb=explode"] {
        let status = post(&router, "/groups/change", &format!("{names}&{body}")).await.status;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    }
}

/// A dashboard whose statements may take as long as those of `uniqueue serve`.
fn limited(database: &Database) -> Router {
    let options = Client::connect_options(&database.url).unwrap().options([("statement_timeout", "2s")]);
    let pool = PgPoolOptions::new().connect_lazy_with(options);
    let client = Client::builder().schema(database.client.schema().clone()).pool(pool);
    Web::new(client).access(|_| Access::all().user("ada")).router()
}

#[test_support::test]
async fn a_change_that_waits_for_an_open_transaction_ends_and_says_why(database: Database) {
    let (client, router) = (&database.client, limited(&database));
    let id = insert(client).await;
    let mut tx = client.pool().begin().await.unwrap();
    client.cancel(id).tx(&mut tx).await.unwrap();
    let unique = |kind: &str| NewJob::new(kind, &json!({})).unique_key(uniqueue::UniqueKey::raw("k"));
    client.insert(unique("mail")).tx(&mut tx).await.unwrap();

    let insert = "kind=other&args={}&policy=%7B%22key%22%3A%22k%22%7D&verb=insert";
    let limit = "queue=mail&verb=max_waiting&limit=5";
    let cancel = format!("/jobs/{id}/change");
    let (inserted, cancelled, limited) = tokio::join!(
        post(&router, "/insert", insert),
        post(&router, &cancel, "verb=cancel"),
        post(&router, "/queues/change", limit),
    );
    assert!(inserted.body.contains("another open transaction holds the unique key"), "{}", inserted.body);
    assert!(inserted.body.contains("value=\"other\""), "the form keeps what was typed: {}", inserted.body);
    assert_eq!(cancelled.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(cancelled.body.contains("This took too long"), "{}", cancelled.body);
    assert!(cancelled.body.contains("It may have waited for an open transaction."), "{}", cancelled.body);
    assert_eq!(limited.status, StatusCode::BAD_REQUEST);
    assert!(limited.body.contains("wait for open transactions that have inserted"), "{}", limited.body);
    tx.rollback().await.unwrap();

    assert_eq!(client.queue("mail").settings().await.unwrap().max_waiting, None);
    assert_eq!(post(&router, "/queues/change", limit).await.status, StatusCode::SEE_OTHER);
    assert_eq!(post(&router, "/insert", insert).await.status, StatusCode::SEE_OTHER);
    let log = Admin::new(client).change_log().await.unwrap();
    assert_eq!(log.len(), 2, "what failed is not logged: {log:?}");
}

#[test_support::test]
async fn an_insert_into_a_full_queue_says_so_at_once(database: Database) {
    let (client, router) = (&database.client, limited(&database));
    client.queue("default").set(QueueChanges::new().max_waiting(Some(1))).await.unwrap();
    insert(client).await;
    let page = post(&router, "/insert", "kind=mail&args={}&verb=insert").await.body;
    assert!(page.contains("queue default is full: at most 1 of its jobs may wait"), "{page}");
}

#[test_support::test]
async fn a_job_is_inserted_after_its_explanation(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let form = "kind=mail&args=%7B%22n%22%3A12345678901234567890.10%7D&policy=%7B%22key%22%3A%22k%22%7D";
    let page = post(&router, "/insert", &format!("{form}&verb=explain")).await.body;
    assert!(page.contains("The key is free"), "{page}");
    let answer = post(&router, "/insert", &format!("{form}&verb=insert")).await;
    let page = get(&router, answer.header("location")).await.body;
    assert!(page.contains("12345678901234567890.10"), "a number keeps its digits: {page}");
    client.holder("k").await.unwrap().unwrap();
    let log = Admin::new(client).change_log().await.unwrap();
    assert_eq!((log[0].actor.as_str(), log[0].verb.as_str(), log[0].jobs), ("ada", "insert", Some(1)));
    let page = post(
        &router,
        "/insert",
        "kind=mail&args={}&policy=%7B%22key%22%3A%22k%22%2C%22on_conflict%22%3A%22ignore%22%7D&verb=insert",
    )
    .await;
    assert!(page.body.contains("A duplicate."), "{}", page.body);
    let page = post(&router, "/insert", "kind=mail&args=%7B&verb=insert").await;
    assert!(page.body.contains("Args are not JSON"), "{}", page.body);
}

#[test_support::test]
async fn an_insert_that_a_waiting_job_takes_in_says_so(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let form = |key: &str, answer: &str, verb: &str| {
        let policy = format!(r#"{{"key":"{key}","scope":"queued",{answer}}}"#);
        format!("kind=mail&args=%7B%22n%22%3A2%7D&policy={}&verb={verb}", coded(&policy))
    };
    for (key, answer, explained, told) in [
        ("a", r#""update": "latest""#, "the holder would be changed.", "the holder was changed"),
        ("b", r#""on_conflict":"run_again""#, "<b>Covered.</b>", "a waiting job does the work"),
        ("c", r#""on_conflict":"ignore""#, "A duplicate.", "Nothing was inserted"),
    ] {
        let policy = UniquePolicy::new().key(key).states(UniqueScope::Queued);
        let id = client.insert(NewJob::new("mail", &json!({"n": 1})).unique(policy)).await.unwrap().id();
        let page = post(&router, "/insert", &form(key, answer, "explain")).await.body;
        assert!(page.contains(explained), "{answer}: {page}");
        assert_eq!(page.contains("New args") && page.contains("New due time"), key == "a", "{answer}: {page}");
        let page = post(&router, "/insert", &form(key, answer, "insert")).await.body;
        assert!(page.contains(told) && page.contains(&id.to_string()), "{answer}: {page}");
        let args = if key == "a" { r#"{"n": 2}"# } else { r#"{"n": 1}"# };
        assert_eq!(job(client, id).await.args.get(), args, "{answer}");
    }
}

#[test_support::test]
async fn a_periodic_job_is_paused_and_run(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    let job = uniqueue::PeriodicJob::cron("nightly", "0 3 * * *", NewJob::new("sweep", &json!({})));
    client.define_periodic(job).await.unwrap();
    assert_eq!(post(&router, "/periodic/change", "name=nightly&verb=pause").await.status, StatusCode::SEE_OTHER);
    assert!(Admin::new(client).periodic().find("nightly").await.unwrap().unwrap().paused_at.is_some());
    let answer = post(&router, "/periodic/change", "name=nightly&verb=run").await;
    assert!(answer.header("location").starts_with("/periodic?ran="), "{}", answer.header("location"));
    assert_eq!(post(&router, "/periodic/change", "name=gone&verb=pause").await.status, StatusCode::NOT_FOUND);
}

#[test_support::test]
async fn an_audit_is_started_and_stopped(database: Database) {
    let (client, router) = (&database.client, dashboard(&database));
    post(&router, "/duplicates/audit", "kind=mail&verb=start").await;
    assert!(Admin::new(client).audited_kinds().await.unwrap()[0].is_audited);
    post(&router, "/duplicates/audit", "kind=mail&verb=stop").await;
    assert!(!Admin::new(client).audited_kinds().await.unwrap()[0].is_audited);
}
