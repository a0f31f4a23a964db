//! Duplicates, by `on_conflict`.

use uniqueue::Rejection;

use super::{email, enqueue, insert};
use crate::seeds::{jobs, race};
use support::prelude::*;

/// OJS's name of a state.
fn ojs_state(state: JobState) -> &'static str {
    match state {
        JobState::Running => "active",
        other => other.as_str(),
    }
}

/// Reject: an error, no job, and all that the 409 of the HTTP binding says.
#[support::test]
async fn reject_is_an_error_with_all_that_the_http_binding_answers(database: Database) {
    let holder = insert(&database, &email(json!({"on_conflict": "reject"}))).await.unwrap();
    for (state, ojs) in [("available", "available"), ("running", "active"), ("retryable", "retryable")] {
        database.set_state(holder.id(), state).await;
        let error = insert(&database, &email(json!({}))).await.unwrap_err();
        assert!(error.is_duplicate());
        let [Rejection { holder: Some(existing), holder_state: Some(holder_state), .. }] = error.rejections() else {
            panic!("{error}")
        };
        let body = json!({"error": {
            "code": if error.is_duplicate() { "duplicate" } else { "other" },
            "message": error.to_string(),
            "details": {"existing_job_id": existing, "existing_job_state": ojs_state(*holder_state)}
        }});
        assert_eq!(body["error"]["details"]["existing_job_id"], holder.id().to_string());
        assert_eq!(body["error"]["details"]["existing_job_state"], ojs);
        assert_eq!(body["error"]["code"], "duplicate");
    }
    assert_eq!(jobs(&database).await, 1);
}

/// A duplicate that is made visible costs no more than one that is not: nothing is written.
#[support::test]
async fn reject_writes_nothing_and_keeps_the_callers_transaction(database: Database) {
    insert(&database, &email(json!({}))).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let job = enqueue(&email(json!({}))).unwrap();
    assert!(database.client.insert(job).tx(&mut tx).await.unwrap_err().is_duplicate());
    let wrote: Option<String> =
        sqlx::query_scalar("SELECT pg_current_xact_id_if_assigned()::text").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(wrote, None);
    tx.commit().await.unwrap();
}

#[support::test]
async fn replace_cancels_the_old_job_and_keeps_it_as_a_record(database: Database) {
    let resize = |picture: &str| {
        json!({
            "type": "resize.avatar", "args": {"user_id": 42, "picture": picture},
            "unique": {"keys": ["type", "args"], "args_keys": ["user_id"], "on_conflict": "replace"}
        })
    };
    // The page's use case: whatever the picture, the latest wins.
    let old = insert(&database, &resize("old.png")).await.unwrap();
    let new = insert(&database, &resize("new.png")).await.unwrap();
    assert!(!new.duplicate);
    assert_eq!(new.replaced, Some(old.id()));
    let old = database.client.job(old.id()).await.unwrap().unwrap();
    assert_eq!((old.state, old.replaced_by), (JobState::Cancelled, Some(new.id())));
    assert!(old.finalized_at.unwrap() >= old.created_at);
    assert_eq!(new.job.args_as::<Value>().unwrap()["picture"], "new.png");
    assert_eq!(new.job.state, JobState::Available);
}

/// Replace never touches a job that runs, and rejects instead, though the spec asks it only of
/// best-effort implementations.
#[support::test]
async fn replace_does_not_replace_an_active_job_and_rejects_instead(database: Database) {
    for on_conflict in ["replace", "replace_except_schedule"] {
        let document = json!({"type": on_conflict, "args": [], "unique": {"on_conflict": on_conflict}});
        let holder = insert(&database, &document).await.unwrap();
        database.set_state(holder.id(), "running").await;
        let error = insert(&database, &document).await.unwrap_err();
        assert_eq!(ojs_state(error.rejections()[0].holder_state.unwrap()), "active");
        let row = database.client.job(holder.id()).await.unwrap().unwrap();
        assert_eq!((row.state, row.replaced_by), (JobState::Running, None));
    }
}

#[support::test]
async fn replace_except_schedule_keeps_the_original_time(database: Database) {
    let due = datetime!(2126-02-12 09:00 UTC);
    let notify = |text: &str| {
        let policy = json!({"on_conflict": "replace_except_schedule"});
        enqueue(&json!({"type": "notify", "args": {"text": text}, "unique": policy})).unwrap()
    };
    let old = database.client.insert(notify("old")).scheduled_at(due).await.unwrap();
    let new = database.client.insert(notify("new")).scheduled_at(due + DAY).await.unwrap();
    assert_eq!((new.job.scheduled_at, new.job.state), (due, JobState::Scheduled));
    assert_eq!(new.replaced, Some(old.id()));
    // A newcomer that names no time keeps it too.
    let newest = database.client.insert(notify("newest")).await.unwrap();
    assert_eq!((newest.job.scheduled_at, newest.job.state), (due, JobState::Scheduled));
    assert_eq!(newest.job.args_as::<Value>().unwrap()["text"], "newest");
}

/// Where the original waits for no time, it is a plain replace: the newcomer's own time counts.
#[support::test]
async fn replace_except_schedule_of_a_job_without_a_schedule_is_a_replace(database: Database) {
    let due = datetime!(2126-02-12 09:00 UTC);
    for (on_conflict, state) in [
        ("replace", "scheduled"),
        ("replace_except_schedule", "available"),
        ("replace_except_schedule", "retryable"),
        ("replace_except_schedule", "pending"),
        ("replace_except_schedule", "completed"),
    ] {
        let policy = UniquePolicy::from_ojs(&json!({"on_conflict": on_conflict})).unwrap();
        let notify = || {
            let kind = format!("{on_conflict} {state}");
            NewJob::new(kind, &json!({})).unique(policy.clone().scope(UniqueScope::Completed))
        };
        let old = database.client.insert(notify()).await.unwrap();
        database.set_state(old.id(), state).await;
        let new = database.client.insert(notify()).scheduled_at(due).await.unwrap();
        assert_eq!(new.replaced, Some(old.id()));
        assert_eq!((new.job.scheduled_at, new.job.state), (due, JobState::Scheduled), "{on_conflict} {state}");
    }
}

/// Ignore: no error, the job in place, and the flag that makes it a 200 rather than a 201.
#[support::test]
async fn ignore_answers_with_the_job_in_place_and_the_flag(database: Database) {
    let invoice = || {
        let policy = json!({"keys": ["type", "args"], "on_conflict": "ignore"});
        enqueue(&json!({"type": "invoice.generate", "args": {"invoice": 7}, "unique": policy})).unwrap()
    };
    // The page's use case: several services at once, the first one wins, the rest are no-ops.
    let answers = race(&database, 8, invoice).await;
    let status = |inserted: &Inserted| if inserted.duplicate { 200 } else { 201 };
    let mut statuses: Vec<_> = answers.iter().map(|answer| status(answer.as_ref().unwrap())).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 201]);
    let inserted = database.client.insert(invoice()).await.unwrap();
    let row = &inserted.job;
    let body = json!({
        "job": {"id": row.id, "type": row.kind, "state": ojs_state(row.state)},
        "deduplicated": inserted.duplicate,
    });
    let id = answers[0].as_ref().unwrap().id().to_string();
    let expected = json!({
        "job": {"id": id, "type": "invoice.generate", "state": "available"}, "deduplicated": true
    });
    assert_eq!(body, expected);
    assert_eq!(jobs(&database).await, 1);
}
