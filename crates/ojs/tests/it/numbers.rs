//! Numbers, which pass through.

use std::path::Path;

use test_support::dice::numbers;
use test_support::prelude::*;

use crate::fixture::{Answer, Door};

async fn post(door: &Door, path: &str, body: String) -> Answer {
    door.send("POST", &format!("/ojs/v1{path}"), &[], body.into_bytes()).await
}

#[test_support::test]
async fn numbers_of_args_come_back_with_every_digit(door: Door) {
    let mut dice = Dice::new(20, 2);
    for path in ["/jobs", "/jobs/batch", "/workflows"] {
        let args = numbers(&mut dice, 300);
        let job = format!(r#"{{"type":"t","args":{args}}}"#);
        let body = match path {
            "/jobs" => job,
            "/jobs/batch" => format!(r#"{{"jobs":[{job}]}}"#),
            _ => format!(r#"{{"type":"chain","steps":[{job}]}}"#),
        };
        assert_eq!(post(&door, path, body).await.status, 201, "{path}");
        let stored = door.database.text(&format!("SELECT '{args}'::jsonb::text")).await;
        let fetched = post(&door, "/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#.to_owned()).await;
        assert!(fetched.text.contains(&format!("\"args\":{stored}")), "{path}: {}", fetched.text);
        let id = door.database.text("SELECT id::text FROM {schema}.job ORDER BY id DESC LIMIT 1").await;
        let shown = door.send("GET", &format!("/ojs/v1/jobs/{id}"), &[], Vec::new()).await;
        assert!(shown.text.contains(&format!("\"args\":{stored}")), "{path}: {}", shown.text);
    }
    let entry = r#"{"name":"n","expression":"0 0 1 1 *","type":"t","args":[1e30,1.50]}"#;
    assert_eq!(post(&door, "/cron", entry.to_owned()).await.status, 201);
    let entries = door.send("GET", "/ojs/v1/cron", &[], Vec::new()).await;
    assert!(
        entries.text.contains("[1000000000000000000000000000000, 1.50]")
            || entries.text.contains("[1000000000000000000000000000000,1.50]"),
        "{}",
        entries.text
    );
}

#[test_support::test]
async fn two_numbers_that_one_double_stands_for_are_never_one_job(door: Door) {
    let job = |number: &str, more: &str| format!(r#"{{"type":"t","args":[{number}]{more}}}"#);
    for number in ["12345678901234567890123", "12345678901234567890124", "1e400", "0.1234567890123456789"] {
        // Of such numbers no key can be made.
        let refused = post(&door, "/jobs", job(number, r#","unique":{"keys":["type","args"]}"#)).await;
        assert!(refused.status == 400 && refused.text.contains("make it a string"), "{refused:?}");
        assert_eq!(post(&door, "/jobs", job(number, "")).await.status, 201, "{number}");
        // The queue keeps these as doubles.
        for more in [r#","meta":{"n":N}"#, r#","metadata":{"n":N}"#, r#","later":N"#] {
            let refused = post(&door, "/jobs", job("1", &more.replace('N', number))).await;
            assert_eq!(refused.status, 400, "{more} {number}: {refused:?}");
        }
    }
    let fetched = door.fetch("default", "w", 1).await;
    let ack = format!(r#"{{"job_id":{},"worker_id":"w","result":1e400}}"#, fetched[0]["id"]);
    assert_eq!(post(&door, "/workers/ack", ack).await.status, 400);
    let ack = format!(r#"{{"job_id":{},"worker_id":"w","result":[0.1,1e3]}}"#, fetched[0]["id"]);
    assert_eq!(post(&door, "/workers/ack", ack).await.status, 200);
    let (_, answer) = door.get(&format!("/jobs/{}", fetched[0]["id"].as_str().unwrap())).await;
    assert_eq!(answer["job"]["result"], json!([0.1, 1000.0]), "{answer}");
}

#[test]
fn no_damaged_body_panics() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/ojs");
    test_support::mutations::feed(&seeds, uniqueue_ojs::fuzz);
}
