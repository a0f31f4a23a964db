//! The results of the search box.

use axum::Router;
use axum::http::StatusCode;
use test_support::prelude::*;
use uniqueue_web::Web;

use crate::support::{coded, get};

/// Where the only hit is, or the page of all hits.
async fn search(router: &Router, typed: &str) -> String {
    let coded = coded(typed);
    let answer = get(router, &format!("/search?q={coded}")).await;
    match answer.status {
        StatusCode::SEE_OTHER => answer.header("location").to_owned(),
        status => {
            assert_eq!(status, StatusCode::OK, "{typed}: {}", answer.body);
            answer.body
        }
    }
}

#[test_support::test]
async fn each_sort_of_thing_is_found_by_one_box(database: Database, client: &Client) {
    let job = |args| NewJob::new("email.send", &args).queue("emails");
    let ada = job(json!({"to": "Ada@example.com", "user": {"id": 4217}}))
        .group("customer:42")
        .unique_key(UniqueKey::raw("welcome:1"));
    let ada = client.insert(ada).await.unwrap().id();
    let eve = client.insert(job(json!({"to": "eve@example.com", "note": "ada@"}))).await.unwrap().id();
    let router = uniqueue_web::router(client.clone());
    let id = ada.to_string();
    let to = format!("/jobs/{ada}");
    for (typed, found) in [
        (id.as_str(), to.as_str()),
        (&id.to_uppercase().replace('-', ""), &to),
        (&format!("{}…{}", &id[..8], &id[30..]), &to),
        ("to: ada@…", &to),
        ("to: ADA@example.com", &to),
        ("user.id: 4217", &to),
        ("4217", &to),
        ("customer:42", "/group?queue=emails&group=customer%3A42"),
        ("omer:4", "/group?queue=emails&group=customer%3A42"),
        ("welcome:", "/key?key=welcome%3A1"),
        ("emails", "/queue?queue=emails"),
        ("l.send", "/kind?kind=email.send"),
    ] {
        assert_eq!(search(&router, typed).await, found, "{typed}");
    }
    let page = search(&router, &id[..8]).await;
    assert!(page.contains(&format!("/jobs/{ada}")) && page.contains(&format!("/jobs/{eve}")), "{page}");
    // Text in any member, and what was searched.
    let page = search(&router, "ada@").await;
    assert!(page.contains(&format!("/jobs/{ada}")) && page.contains(&format!("/jobs/{eve}")), "{page}");
    assert!(page.contains("the args of the jobs of the last 24 h"), "{page}");
    let page = search(&router, "nothing like it").await;
    assert!(page.contains("Nothing was found for") && page.contains("of any time"), "{page}");
    let names = get(&router, "/suggest?q=em").await.body;
    assert_eq!(names, r#"["email.send","emails"]"#);
    assert_eq!(get(&router, "/suggest?q=SEND").await.body, r#"["email.send"]"#);
    assert_eq!(get(&router, "/suggest?q=em&of=queues").await.body, r#"["emails"]"#);
}

#[test_support::test]
async fn no_plain_text_ends_in_an_error(database: Database) {
    database.client.insert(NewJob::new("mail", &json!({"a": "b"}))).await.unwrap();
    let router = uniqueue_web::router(database.client.clone());
    let long = "x".repeat(3_000);
    for typed in [
        "",
        " ",
        "'",
        "\"",
        "\\",
        "\\u0000",
        "\0",
        "\0\0",
        "a\0b",
        "{",
        "{\"a\"",
        "[1,",
        "null",
        "true",
        "-1",
        "1e999",
        "$.a",
        "a:",
        ":b",
        "a: ",
        "a.b.c: d",
        "a..b: c",
        "%",
        "(?<x",
        "\u{202e}",
        "😀",
        "{}",
        "[]",
        "{\"a\": \"\\u0000\"}",
        &long,
    ] {
        search(&router, typed).await;
        let coded = coded(typed);
        let list = get(&router, &format!("/jobs?args={coded}")).await;
        let is_nul = typed.contains("u0000") && typed.starts_with('{');
        assert_eq!(list.status == StatusCode::OK, !is_nul, "{typed:?}: {}", list.body);
    }
}

#[test_support::test]
async fn hidden_args_are_not_searched(database: Database) {
    database.client.insert(NewJob::new("mail", &json!({"secret": "hunter2"}))).await.unwrap();
    let router = Web::new(database.client.clone()).redact(|job| job.meta.clear()).router();
    let page = search(&router, "hunter2").await;
    assert!(page.contains("Args were not searched") && page.contains("Nothing was found"), "{page}");
    assert_eq!(get(&router, "/jobs/export?args=hunter2").await.status, StatusCode::BAD_REQUEST);
}
