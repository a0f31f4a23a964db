//! Values that PostgreSQL cannot store, and rows that another transaction has locked: neither holds up another job.

use super::{Fetched, Remote};
use support::prelude::*;

/// Values that cannot be stored, as SQL, and a part of PostgreSQL's reason.
const BAD: [(&str, &str); 6] = [
    (r#"'"\u0000"'"#, "unsupported Unicode escape sequence"),
    (r#"'"\ud800"'"#, "invalid input syntax for type json"),
    ("repeat('[', 100000) || repeat(']', 100000)", "stack depth limit exceeded"),
    (r#"'{"n": 1e1000000}'"#, "overflow"),
    ("'no JSON'", "invalid input syntax for type json"),
    ("''", "invalid input syntax for type json"),
];

async fn started(database: &Database, count: i32) -> (Remote, Vec<Fetched>) {
    let worker = Remote::new(database, "w");
    database.client.insert_many((0..count).map(|_| job("j"))).await.unwrap();
    let jobs = worker.fetch(count).await;
    (worker, jobs)
}

/// What a call about these jobs answers of each: whether it counted or is held, and the values that were not stored.
async fn answers(worker: &Remote, jobs: &[Fetched], call: &str, rest: &str) -> Vec<(bool, Option<String>)> {
    let (ids, runs): (Vec<_>, Vec<_>) = jobs.iter().map(|job| (job.id, job.run)).unzip();
    let verb = if call == "extend_jobs" { "held" } else { "counted" };
    let text = worker.sql(&format!("SELECT a.{verb}, a.not_stored FROM {{schema}}.{call}($1, $2{rest}) AS a"));
    let rows = sqlx::query(text).bind(ids).bind(runs).fetch_all(&worker.pool).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// The values as an array with one more that can be stored, and what the answer about them must say.
fn array() -> String {
    let values: Vec<_> = BAD.iter().map(|(value, _)| *value).chain([r#"'{"a": 1}'"#]).collect();
    format!("ARRAY[{}]", values.join(", "))
}

fn assert_dropped(said: &[(bool, Option<String>)], member: &str) {
    for ((counted, dropped), (value, reason)) in said.iter().zip(BAD) {
        let dropped = dropped.as_deref().unwrap_or_default();
        assert!(*counted && dropped.starts_with(member) && dropped.contains(reason), "{value}: {counted} {dropped}");
    }
    assert_eq!(said[BAD.len()], (true, None));
}

#[support::test]
async fn an_output_that_cannot_be_stored_is_dropped_and_the_job_completes(database: Database) {
    let (worker, jobs) = started(&database, 7).await;
    assert_dropped(&answers(&worker, &jobs, "complete_jobs", &format!(", {}", array())).await, "output: ");
    let stored = "SELECT count(*) || ' ' || string_agg(output::text, ', ') FROM {schema}.job WHERE state = 'completed'";
    assert_eq!(database.text(stored).await, r#"7 {"a": 1}"#);
}

#[support::test]
async fn progress_that_cannot_be_stored_holds_up_no_heartbeat_and_no_failure(database: Database) {
    let (worker, jobs) = started(&database, 7).await;
    super::run_out(&database).await;
    let extend = format!(", '1 minute', {}", array());
    assert_dropped(&answers(&worker, &jobs, "extend_jobs", &extend).await, "progress: ");
    let held =
        "SELECT count(*) || ' ' || string_agg(progress::text, ', ') FROM {schema}.job WHERE reserved_until > now()";
    assert_eq!(database.text(held).await, r#"7 {"a": 1}"#);
    let retry = format!(
        ", array_fill('retry'::text, '{{7}}'), errors => array_fill('bad'::text, '{{7}}'), progress => {}, error_details => {0}",
        array().replace(r#"'{"a": 1}'"#, r#"'{"code": "c"}'"#)
    );
    let said = answers(&worker, &jobs, "finish_jobs", &retry).await;
    assert_dropped(&said, "progress: ");
    assert!(said[0].1.as_ref().unwrap().contains("; error_details: unsupported Unicode"), "{said:?}");
    let stored = "SELECT count(*) FROM {schema}.job WHERE state = 'retryable' AND errors #>> '{0, error}' = 'bad'";
    assert_eq!(database.number(stored).await, 7);
}

#[support::test]
async fn a_locked_row_is_answered_locked_and_the_others_count(database: Database) {
    let (worker, jobs) = started(&database, 4).await;
    let mut locking = worker.pool.begin().await.unwrap();
    for (n, strength) in [(1, "NO KEY UPDATE"), (2, "KEY SHARE")] {
        let lock = worker.sql(&format!("SELECT FROM {{schema}}.job WHERE id = $1 FOR {strength}"));
        sqlx::query(lock).bind(jobs[n].id).execute(&mut *locking).await.unwrap();
    }
    let said = async |jobs: &[Fetched], call: &str, rest: &str| {
        let (ids, runs): (Vec<_>, Vec<_>) = jobs.iter().map(|job| (job.id, job.run)).unzip();
        let text = worker.sql(&format!(
            "SELECT concat_ws(' ', a.counted, a.locked, a.state) FROM {{schema}}.{call}($1, $2{rest}) AS a"
        ));
        let rows = sqlx::query_scalar::<_, String>(text).bind(ids).bind(runs).fetch_all(&worker.pool);
        timeout(WAIT, rows).await.expect("it does not wait for the lock").unwrap()
    };
    let (first, both) = (&jobs[..3], "t f completed");
    assert_eq!(said(first, "complete_jobs", "").await, [both, "f t running", both]);
    let rest = &jobs[1..];
    assert_eq!(
        said(rest, "fail_jobs", ", ARRAY['a', 'b', 'c']").await,
        ["f t running", "f f completed", "t f retryable"]
    );
    // Alone.
    assert_eq!(said(&jobs[1..2], "complete_jobs", "").await, ["f t running"]);
    locking.rollback().await.unwrap();
    assert_eq!(said(&jobs[1..2], "complete_jobs", ", ARRAY['5']").await, [both]);
    let row = database.row(jobs[1].id.into()).await;
    assert_eq!((row.state, row.output), (JobState::Completed, Some(serde_json::json!(5))));
}
