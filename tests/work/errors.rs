//! Errors of attempts with a code, a type and details.

use std::fmt;

use uniqueue::AttemptError;

use support::prelude::*;

#[derive(Debug)]
struct CardError;

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("declined")
    }
}

impl std::error::Error for CardError {}

/// Works jobs until none is left to start, and answers with them in the order of `n`.
async fn worked<W: uniqueue::Worker<Task>>(database: &Database, jobs: u32, worker: W) -> Vec<JobRow> {
    let inserted =
        database.client.insert_many((0..jobs).map(|n| NewJob::from(Task { n }).max_attempts(5))).await.unwrap();
    let runner = quick(&database.client).retry_policy(RetryPolicy::fixed(60 * SECOND)).worker(worker);
    database.start(runner).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state IN ('available', 'running')", 0).await;
    database.end().await;
    let mut rows = Vec::new();
    for one in inserted {
        rows.push(database.client.job(one.id()).await.unwrap().unwrap());
    }
    rows
}

fn last(row: &JobRow) -> &AttemptError {
    row.errors.last().unwrap()
}

#[support::test]
async fn an_error_keeps_its_code_its_type_and_whether_another_attempt_can_succeed(database: Database) {
    let rows = worked(&database, 5, async |job: RunningJob<Task>| -> Result<(), BoxError> {
        Err(match job.args.n {
            0 => JobError::new(CardError).code("card_declined").details(json!({"status": 402})).into(),
            1 => JobError::new("no").code("hopeless").permanent().into(),
            2 => JobError::new("later").retry_after(3_600 * SECOND).into(),
            3 => JobError::new("in Python").error_type("ValueError").into(),
            _ => "text".into(),
        })
    })
    .await;
    let stored = |row: &JobRow| {
        let AttemptError { code, error_type, retryable, .. } = last(row).clone();
        (row.state, code, error_type, retryable)
    };
    let own = Some(std::any::type_name::<CardError>().to_owned());
    assert_eq!(stored(&rows[0]), (JobState::Retryable, Some("card_declined".to_owned()), own, None));
    assert_eq!(last(&rows[0]).details, Some(json!({"status": 402})));
    assert_eq!(stored(&rows[1]), (JobState::Discarded, Some("hopeless".to_owned()), None, Some(false)));
    assert_eq!(stored(&rows[2]), (JobState::Retryable, None, None, None));
    assert!(rows[2].scheduled_at - rows[2].attempted_at.unwrap() > time::Duration::minutes(50));
    assert_eq!(stored(&rows[3]), (JobState::Retryable, None, Some("ValueError".to_owned()), None));
    assert_eq!(stored(&rows[4]), (JobState::Retryable, None, None, None));
    // Without more to say, an entry has no more members than before.
    let members = format!("SELECT errors ->> -1 FROM {{schema}}.job WHERE id = '{}'", rows[4].id);
    let entry: Value = serde_json::from_str(&database.text(&members).await).unwrap();
    assert_eq!(entry.as_object().unwrap().keys().collect::<Vec<_>>(), ["at", "attempt", "error"]);
}

#[support::test]
async fn the_type_of_an_error_is_that_of_the_workers_signature(database: Database) {
    let rows = worked(&database, 1, async |_: RunningJob<Task>| Err::<(), _>(CardError)).await;
    assert_eq!(last(&rows[0]).error_type.as_deref(), Some(std::any::type_name::<CardError>()));
}

#[support::test]
async fn errors_of_uniqueue_s_own_have_a_code(database: Database, client: &Client) {
    let bad = client.insert(NewJob::new("task", &json!({"n": "text"}))).await.unwrap().id();
    let worker = async |job: RunningJob<Task>| -> Result<Outcome, BoxError> {
        if job.args.n == 0 {
            panic!("oh no");
        }
        std::future::pending().await
    };
    let panics = client.insert(Task { n: 0 }).await.unwrap().id();
    let hangs = client.insert(Task { n: 1 }).await.unwrap().id();
    let runner = quick(client).retry_policy(RetryPolicy::fixed(60 * SECOND)).stop_grace(Duration::ZERO);
    let options = WorkerOptions::new().timeout(SECOND / 10);
    database.start(runner.worker_with(worker, options)).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'retryable'", 3).await;
    for (id, code) in [(bad, "invalid_args"), (panics, "panicked"), (hangs, "timed_out")] {
        let row = database.row(id).await;
        assert_eq!(last(&row).code.as_deref(), Some(code), "{row:?}");
    }
    let text = &database.row(bad).await.errors[0].error;
    assert!(text.contains("invalid args of \"task\""), "{text}");
    let text = &database.row(panics).await.errors[0].error;
    assert!(text.contains("oh no") && text.contains("errors.rs"), "{text}");
}

/// Answers with the job, its state, and the values that were not stored.
async fn fail(database: &Database, details: &str) -> (JobId, String, Option<String>) {
    let id = database.client.insert(job("remote")).await.unwrap().id();
    database.number("SELECT count(*) FROM {schema}.fetch_jobs('{default}', 'w')").await;
    let fail = format!(
        "SELECT f.state, f.not_stored FROM {{schema}}.job AS j, {{schema}}.fail_jobs(
            ARRAY[j.id], ARRAY[j.run], ARRAY['no luck'], ARRAY[interval '1 h'], ARRAY[{details}]
        ) AS f WHERE j.id = '{id}'"
    );
    let row = sqlx::query(database.sql(&fail)).fetch_one(database.pool()).await.unwrap();
    (id, row.get(0), row.get(1))
}

#[support::test]
async fn a_remote_worker_says_the_same_of_its_errors(database: Database) {
    let (id, state, _) =
        fail(&database, r#"'{"code": "card", "type": "CardError", "retryable": true, "details": [1]}'"#).await;
    assert_eq!(state, "retryable");
    let row = database.row(id).await;
    let AttemptError { code, error_type, retryable, details, error, .. } = last(&row).clone();
    assert_eq!((code.as_deref(), error_type.as_deref(), retryable), (Some("card"), Some("CardError"), Some(true)));
    assert_eq!((details, error.as_str()), (Some(json!([1])), "no luck"));
    let (id, state, _) = fail(&database, r#"'{"code": "hopeless", "retryable": false}'"#).await;
    assert_eq!(state, "discarded");
    assert_eq!(last(&database.row(id).await).retryable, Some(false));
    assert_eq!(fail(&database, "NULL").await.1, "retryable");
    for (details, problem) in [
        ("'[]'", "must be an object: []"),
        (r#"'{"kode": "a"}'"#, r#"unknown member: "kode""#),
        (r#"'{"code": ""}'"#, r#"code must be a text of 1 to 128 bytes: """#),
        (r#"'{"type": 3}'"#, "type must be a text of 1 to 256 bytes: 3"),
        (r#"'{"retryable": "no"}'"#, r#"retryable must be true or false: "no""#),
        ("jsonb_build_object('details', repeat('x', 20000))::text", "details must be at most 16384 bytes: 20002"),
    ] {
        let (_, state, dropped) = fail(&database, details).await;
        assert_eq!((state.as_str(), dropped), ("retryable", Some(format!("error_details: {problem}"))));
    }
}

#[support::test]
async fn jobs_are_found_and_counted_by_the_code_of_their_last_error(database: Database, client: &Client) {
    worked(&database, 6, async |job: RunningJob<Task>| -> Result<(), JobError> {
        let error = JobError::new("no");
        Err(match job.args.n {
            0 | 1 => error.code("a"),
            2..=4 => error.code("b").permanent(),
            _ => error,
        })
    })
    .await;
    let found = client.jobs(JobFilter::new().error_code("b")).await.unwrap();
    assert_eq!(found.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Discarded; 3]);
    assert_eq!(client.jobs(JobFilter::new().error_code("c")).await.unwrap().len(), 0);
    assert_eq!(client.count_jobs(JobFilter::new().error_code("a"), 10).await.unwrap().to_string(), "2");
    let counted = Admin::new(client).failing_codes().await.unwrap().into_iter();
    let counted: Vec<_> = counted.map(|one| (one.code, one.retryable, one.discarded)).collect();
    assert_eq!(counted, [(Some("b".to_owned()), 0, 3), (Some("a".to_owned()), 2, 0), (None, 1, 0)]);
    let seen = "SELECT string_agg(concat_ws(' ', kind, code, retryable, discarded, last_error), '; ') FROM {schema}.failing_code";
    assert_eq!(database.text(seen).await, "task b 0 3 no; task a 2 0 no; task 1 0 no");
    // A change by code goes to these jobs and no other.
    assert_eq!(client.retry(JobFilter::new().error_code("b")).await.unwrap().len(), 3);
}
