//! The pages of registered kinds, and what the forms take from a kind.

use axum::http::StatusCode;
use test_support::prelude::*;
use uniqueue_web::{Access, Web};

use crate::support::{get, request, send};

/// A database in which a kind is registered.
async fn registered() -> Database {
    let database = Database::new().await;
    let register = "SELECT {schema}.register_kind(
        'mail', 'mails', priority => 3, unique_policy => '{\"keys\": [\"args\"], \"args_keys\": [\"user\"]}',
        group_policy => '{\"keys\": [\"args\"], \"args_keys\": [\"user\"]}', group_limit => 2, timeout => '90 s', place => 'user', registered_by => 'mailer <b>')";
    database.execute(register).await;
    database
}

#[test_support::test]
async fn kinds_are_listed_and_each_has_a_page(empty: Database) {
    let page = get(&uniqueue_web::router(empty.client.clone()), "/kinds").await.body;
    assert!(page.contains("No kind is registered"), "{page}");
    let database = registered().await;
    let router = uniqueue_web::router(database.client.clone());
    let page = get(&router, "/kinds").await.body;
    for part in ["/kind?kind=mail", "mails", "same kind and args user;", "mailer &lt;b&gt;", "uniqueue kind list"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = get(&router, "/kind?kind=mail").await.body;
    for part in [
        "1m 30s",
        "a duplicate is ignored",
        "same kind and args user; at most 2 at once",
        "place by",
        "uniqueue kind show mail",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("None waits for a retry"), "{page}");
    let failed = database.client.insert(NewJob::new("mail", &json!({}))).await.unwrap().id();
    let fail = format!("UPDATE {{schema}}.job SET state = 'discarded', finalized_at = now() WHERE id = '{failed}'");
    database.execute(&fail).await;
    let router = uniqueue_web::router(database.client.clone());
    let page = get(&router, "/kind?kind=mail").await.body;
    assert!(page.contains("0 retryable, 1 discarded"), "{page}");
    assert_eq!(get(&router, "/kind?kind=other").await.status, StatusCode::NOT_FOUND);
}

#[test_support::test]
async fn a_kind_that_ran_this_week_has_a_page_though_no_job_of_it_is_left(database: Database) {
    let add = r#"SELECT {schema}._add_history(now() - interval '2 days', jsonb_build_array(
        '{"kind": "gone", "queue": "default", "inserted": 1, "completed": 1, "waits": [1], "runs": [1]}'::jsonb))"#;
    database.execute(add).await;
    let router = uniqueue_web::router(database.client.clone());
    assert_eq!(get(&router, "/kind?kind=gone").await.status, StatusCode::OK);
    assert_eq!(get(&router, "/kind?kind=never").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn r22_the_forms_begin_from_the_registered_kind() {
    let database = registered().await;
    let router = Web::new(database.client.clone()).access(|_| Access::all()).router();
    let post = async |body: &str| send(&router, request("POST", "/insert", body)).await;
    // The form of a link that names the kind has its policy.
    let page = get(&router, "/explain?kind=mail").await.body;
    assert!(page.contains("args_keys") && !page.contains("A new job."), "{page}");
    let form = "kind=mail&args=%7B%22user%22%3A1%7D&queue=&priority=&max_attempts=&minutes=&policy=";
    let page = post(&format!("{form}&verb=explain")).await.body;
    assert!(page.contains("The key is free"), "{page}");
    let answer = post(&format!("{form}&verb=insert")).await;
    let page = get(&router, answer.header("location")).await.body;
    assert!(page.contains("mails"), "{page}");
    for page in [
        post(&format!("{form}&verb=explain")).await.body,
        get(&router, "/explain?kind=mail&args=%7B%22user%22%3A1%7D&policy=&what=insert").await.body,
    ] {
        assert!(page.contains("A duplicate.") && !page.contains("The key is free"), "{page}");
    }
    let page = post(&format!("{form}null&verb=explain")).await.body;
    assert!(page.contains("It is not unique") && !page.contains("The key is free"), "{page}");
    let page = get(&router, "/explain?kind=mail&policy=&what=lab&since=all").await.body;
    assert!(page.contains("<b class=\"number\">0</b> of <b class=\"number\">1</b>"), "{page}");
    let page = get(&router, "/explain?kind=other&policy=&what=lab").await.body;
    assert!(page.contains("A policy is needed."), "{page}");
}

#[tokio::test]
async fn a_runner_of_any_kind_works_each_kind() {
    let database = registered().await;
    let runner = "INSERT INTO {schema}.runner (id, name, queues, leased_until, kinds, knows_groups)
        SELECT gen_random_uuid(), 'works all', ARRAY['mails'], now() + interval '1 hour', NULL, true";
    database.execute(runner).await;
    let page = get(&uniqueue_web::router(database.client.clone()), "/kind?kind=mail").await.body;
    assert!(page.contains("works all") && page.contains("any kind of its queues"), "{page}");
}
