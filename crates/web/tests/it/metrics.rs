//! `/metrics` and `/health`.

use axum::http::{HeaderValue, StatusCode, header};
use test_support::prelude::*;
use uniqueue_web::{Access, Web};

use crate::support::{get, request, send};

#[test_support::test]
async fn metrics_have_every_queue_and_say_which_counts_are_capped(database: Database, client: &Client) {
    let jobs = (0..3).map(|n| NewJob::new("a", &json!({ "n": n })).queue("it's \"one\"\\"));
    client.insert_many(jobs).await.unwrap();
    client.queue("mail").pause().await.unwrap();
    client.queue("mail").limit(Some(2)).await.unwrap();
    client.queue("mail").set(QueueChanges::new().group_limit(Some(1))).await.unwrap();
    client.queue("mail").set(QueueChanges::new().max_waiting(Some(500))).await.unwrap();
    client
        .queue("mail")
        .set(QueueChanges::new().rate(Some(Rate::per(3, Duration::from_secs(2)).burst(7))))
        .await
        .unwrap();
    client
        .queue("mail")
        .set(QueueChanges::new().group_rate(Some(Rate::per(100, Duration::from_secs(3_600)))))
        .await
        .unwrap();
    client.queue("mail").hold(Duration::from_secs(3_600)).await.unwrap();
    Admin::new(client).audit_duplicates("a", None).await.unwrap();
    let router = uniqueue_web::router(client.clone());
    let page = get(&router, "/metrics").await;
    assert!(page.header("content-type").starts_with("application/openmetrics-text; version=1.0.0"));
    for line in [
        "# TYPE uniqueue_jobs gauge",
        r#"uniqueue_jobs{queue="it's \"one\"\\",state="available"} 3"#,
        r#"uniqueue_jobs_capped{queue="it's \"one\"\\",state="available"} 0"#,
        r#"uniqueue_queue_paused{queue="mail"} 1"#,
        r#"uniqueue_queue_limit{queue="mail"} 2"#,
        r#"uniqueue_queue_group_limit{queue="mail"} 1"#,
        r#"uniqueue_queue_max_waiting{queue="mail"} 500"#,
        "# TYPE uniqueue_queue_held gauge",
        r#"uniqueue_queue_held{queue="mail"} 1"#,
        r#"uniqueue_queue_held{queue="it's \"one\"\\"} 0"#,
        r#"uniqueue_queue_rate_per_second{queue="mail"} 1.5"#,
        r#"uniqueue_queue_rate_burst{queue="mail"} 7"#,
        r#"uniqueue_queue_group_rate_per_second{queue="mail"} 0.027777777777777776"#,
        r#"uniqueue_queue_group_rate_burst{queue="mail"} 100"#,
        "uniqueue_runners 0",
        "uniqueue_waiting_inserts 0",
        r#"uniqueue_suppressed_duplicates_total{kind="a"} 0"#,
        "uniqueue_sample_failed 0",
        "# TYPE uniqueue_build info",
    ] {
        assert!(page.body.lines().any(|one| one == line), "{line}:\n{}", page.body);
    }
    assert!(page.body.ends_with("\n# EOF\n"), "{}", page.body);
    assert!(!page.body.contains("{queue=\"mail\"} -"), "{}", page.body);
    let rates = page.body.lines().filter(|line| line.starts_with("uniqueue_queue_rate_")).count();
    assert_eq!(rates, 2, "no rate of a queue without one: {}", page.body);
}

#[test_support::test]
async fn probes_need_no_rights_and_come_to_an_address(database: Database) {
    let router = Web::new(database.client.clone()).access(|_| Access::none()).router();
    for (path, body) in [("/health/live", "live\n"), ("/health/ready", "ready\n")] {
        let mut probe = request("GET", path, "");
        probe.headers_mut().insert(header::HOST, HeaderValue::from_static("10.1.2.3:4180"));
        let answer = send(&router, probe).await;
        assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, body));
    }
    assert_eq!(get(&router, "/metrics").await.status, StatusCode::FORBIDDEN);
}

#[test_support::test]
async fn without_a_database_the_process_lives_and_is_not_ready(database: Database) {
    let client = database.client.clone();
    client.pool().close().await;
    let router = uniqueue_web::router(client);
    assert_eq!(get(&router, "/health/live").await.status, StatusCode::OK);
    assert_eq!(get(&router, "/health/ready").await.status, StatusCode::SERVICE_UNAVAILABLE);
    let page = get(&router, "/metrics").await;
    assert!(page.body.contains("\nuniqueue_sample_failed 1\n"), "{}", page.body);
}

#[test_support::test(with_connections(1))]
async fn tabs_and_scrapes_are_answered_by_the_sample_and_not_by_the_database(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    assert_eq!(get(&router, "/").await.status, StatusCode::OK);
    // From now on a query would wait for the connection.
    let connection = database.pool().acquire().await.unwrap();
    let tabs: Vec<_> = (0..50)
        .map(|tab| {
            let router = router.clone();
            let path = ["/", "/metrics"][tab % 2];
            tokio::spawn(async move { get(&router, path).await })
        })
        .collect();
    for tab in tabs {
        assert_eq!(tab.await.unwrap().status, StatusCode::OK);
    }
    drop(connection);
}
