//! Pages while the database does not answer.

use axum::Router;
use axum::http::StatusCode;
use test_support::prelude::*;
use uniqueue::embedded::Postgres;

use crate::support::{Answer, get, lock_jobs};

/// Longer than anything takes.
const WAIT: Duration = Duration::from_secs(60);

/// The words of a page of old numbers.
const OLD: &str = "What stands here was read";

/// Pages that are made from a sample, and pages that read the database themselves.
const SAMPLED: [&str; 4] = ["/", "/queues", "/queue?queue=mail", "/doctor"];
const READ: [&str; 11] = [
    "/jobs",
    "/keys",
    "/key?key=a",
    "/groups",
    "/waiting",
    "/failing",
    "/running",
    "/runners",
    "/changes",
    "/periodic",
    "/kinds",
];

/// A page, once it has this status.
async fn when(router: &Router, path: &str, status: StatusCode) -> Answer {
    eventually!(let answer = get(router, path).await; answer.status == status, "{path} has never the status {status}")
}

#[tokio::test]
async fn every_page_says_that_the_database_is_away_and_none_waits_for_it() {
    let postgres = Postgres::start().await.unwrap();
    let options = Client::connect_options(postgres.url()).unwrap();
    // A page that waited for a connection would wait for a minute.
    let pool = PgPoolOptions::new().max_connections(5).acquire_timeout(WAIT).connect_lazy_with(options);
    let client = Client::builder().pool(pool);
    client.migrate().await.unwrap();
    client.insert(NewJob::new("send", &json!({})).queue("mail")).await.unwrap();
    let router = uniqueue_web::router(client);
    for path in SAMPLED.into_iter().chain(READ).chain(["/health/ready", "/metrics"]) {
        let answer = get(&router, path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert!(!answer.body.contains("data-old"), "{path}: {}", answer.body);
    }
    postgres.stop().await.unwrap();
    when(&router, "/health/ready", StatusCode::SERVICE_UNAVAILABLE).await;
    for path in SAMPLED {
        let answer = when(&router, path, StatusCode::SERVICE_UNAVAILABLE).await;
        assert!(answer.body.contains(OLD) && answer.body.contains("data-old"), "{path}: {}", answer.body);
    }
    let queues = get(&router, "/queues").await.body;
    assert!(queues.contains(">mail</a>"), "the old numbers stay: {queues}");
    let began = Instant::now();
    for path in READ {
        // An answer that open pages share stands for two seconds.
        let answer = when(&router, path, StatusCode::SERVICE_UNAVAILABLE).await;
        assert!(answer.body.contains("data-old") && answer.body.contains("<nav"), "{path}: {}", answer.body);
    }
    assert!(began.elapsed() < WAIT, "{:?}", began.elapsed());
    assert!(get(&router, "/metrics").await.body.contains("\nuniqueue_sample_failed 1\n"));
    assert_eq!(get(&router, "/health/live").await.status, StatusCode::OK);
}

#[test_support::test]
async fn a_page_is_new_again_when_the_database_answers(database: Database) {
    let router = uniqueue_web::router(database.client.clone());
    assert_eq!(get(&router, "/queues").await.status, StatusCode::OK);
    let lock = lock_jobs(&database).await;
    let old = when(&router, "/", StatusCode::SERVICE_UNAVAILABLE).await;
    assert!(old.body.contains(OLD), "{}", old.body);
    lock.rollback().await.unwrap();
    let new = when(&router, "/", StatusCode::OK).await;
    assert!(!new.body.contains("data-old"), "{}", new.body);
}

#[tokio::test]
async fn a_dashboard_that_never_saw_the_database_says_so() {
    let postgres = Postgres::start().await.unwrap();
    let options = Client::connect_options(postgres.url()).unwrap();
    postgres.stop().await.unwrap();
    let pool = PgPoolOptions::new().acquire_timeout(Duration::from_secs(1)).connect_lazy_with(options);
    let router = uniqueue_web::router(Client::builder().pool(pool));
    for path in SAMPLED {
        let answer = get(&router, path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(answer.body.contains("This page fills when it can"), "{path}: {}", answer.body);
    }
}
