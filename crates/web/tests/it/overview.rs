//! The overview, and the metrics, of a queue in trouble.

use axum::Router;
use test_support::prelude::*;

use crate::support::get;

/// Jobs that nothing runs, one more than the library counts; and jobs that waited 2.5 s and ran 250 ms.
const JOBS: &str = "
    INSERT INTO {schema}.job (id, kind, queue, created_at, scheduled_at)
    SELECT gen_random_uuid(), 'a', 'deep', now() - interval '2 hours', now() - interval '2 hours' FROM generate_series(1, 10001);
    INSERT INTO {schema}.job (id, kind, state, attempt, created_at, scheduled_at, attempted_at, finalized_at)
    SELECT
        (substr(id::text, 1, 14) || '7' || substr(id::text, 16))::uuid, 'b', 'completed', 1, at, at, at + interval '2.5 s',
        at + interval '2.75 s'
    FROM (SELECT gen_random_uuid() AS id, now() - interval '1 minute' AS at FROM generate_series(1, 10)) AS n";

/// A page, when it has a text.
async fn when(router: &Router, path: &str, text: &str) -> String {
    eventually!(let page = get(router, path).await.body; page.contains(text), "{text} is not on {path}")
}

#[test_support::test]
async fn what_is_wrong_stands_first_and_is_measured(database: Database, client: &Client) {
    database.execute(JOBS).await;
    Admin::new(client).audit_duplicates("mail", None).await.unwrap();
    for _ in 0..6 {
        let key = uniqueue::UniqueKey::raw("k");
        client.insert(NewJob::new("mail", &json!({})).queue("mail").unique_key(key)).await.unwrap();
    }
    let found = Admin::new(client).diagnose().await.unwrap().findings;
    let worst = found.first().unwrap();
    let router = uniqueue_web::router(client.clone());
    let page = when(&router, "/", "<details class=\"finding").await;
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    assert!(place("<details class=\"finding") < place("<section class=\"states\""));
    assert!(place(worst.code.as_str()) < place("<section class=\"states\""), "{worst:?}");
    assert!(page.contains(">~10 k</b>"), "an estimate beyond the limit of counting: {page}");
    let times = |name: &str, time: &str| {
        let row = format!("<th scope=\"row\">{name}</th>{}", format!("<td class=\"num\">{time}</td>").repeat(4));
        assert!(page.contains(&row), "{row}: {page}");
    };
    times("waited", "2.5s");
    times("ran", "250ms");
    assert!(page.contains("due for 2h 0m"), "{page}");

    let metrics = get(&router, "/metrics").await.body;
    let value = |series: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series}: {metrics}")).parse().unwrap()
    };
    assert_eq!(value(r#"uniqueue_jobs{queue="deep",state="available"}"#), 10_001.0);
    assert_eq!(value(r#"uniqueue_jobs_capped{queue="deep",state="available"}"#), 1.0);
    assert_eq!(value(r#"uniqueue_jobs_capped{queue="mail",state="available"}"#), 0.0);
    let age = value(r#"uniqueue_oldest_available_age_seconds{queue="deep"}"#);
    assert!((7_200.0..8_000.0).contains(&age), "{age}");
    assert_eq!(value(r#"uniqueue_suppressed_duplicates_total{kind="mail"}"#), 5.0);
    let of_severity = |severity: &str| value(&format!("uniqueue_findings{{severity=\"{severity}\"}}"));
    assert!(of_severity(worst.severity.as_str()) >= 1.0, "{metrics}");
    assert!(value(&format!("uniqueue_finding{{code=\"{}\"}}", worst.code.as_str())) >= 1.0, "{metrics}");
    assert!(value("uniqueue_diagnosis_age_seconds") < 60.0);
}
