//! Pending jobs, whose `expires_in` has not begun.

use serde_json::json;
use uniqueue::{Client, JobId, JobState, NewJob, OnConflict, UniqueKey, Update};

use super::{HOUR, row};
use support::{Database, job};

/// Whether the job expires an hour after it was released.
async fn counts_from_its_release(database: &Database, id: JobId) -> bool {
    // Its parent has taken two hours.
    let age = "UPDATE {schema}.job SET created_at = now() - interval '2 h', scheduled_at = now() - interval '2 h'";
    database.execute(age).await;
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 0);
    database.client.release([id]).await.unwrap();
    let now = row(database, id).await;
    now.state == JobState::Available && now.expires_at == Some(now.scheduled_at + HOUR)
}

#[support::test]
async fn r21_expires_in_of_a_pending_job_counts_from_its_release(database: Database, client: &Client) {
    let with_key = || job("a").pending().expires_in(HOUR).unique_key(UniqueKey::raw("k"));
    let updating = || with_key().unique_key(UniqueKey::raw("u").update(Update::merge()));
    let batch = [job("a").pending().expires_in(HOUR), job("a").pending().expires_in(HOUR)];
    let keyed_batch = [with_key().unique_key(UniqueKey::raw("l")), job("a")];
    let mut inserted = vec![
        client.insert(job("a").pending().expires_in(HOUR)).await.unwrap().job,
        client.insert(with_key()).await.unwrap().job,
        client.insert(updating()).await.unwrap().job,
    ];
    inserted.extend(client.insert_many(batch).await.unwrap().into_iter().map(|one| one.job));
    inserted.push(client.insert_many(keyed_batch).await.unwrap().remove(0).job);
    for one in inserted {
        assert_eq!(one.expires_at, None);
        assert_eq!(row(&database, one.id).await.expires_at, None);
        assert!(counts_from_its_release(&database, one.id).await);
    }
}

#[support::test]
async fn r21_expires_in_of_a_child_counts_from_when_its_parents_have_ended(database: Database) {
    database.execute("SELECT {schema}.register_kind('brief', expires_in => '1 h')").await;
    let parent = database.client.insert(job("parent")).await.unwrap().id();
    for insert in [
        format!("SELECT id FROM {{schema}}.insert_job('brief', after => '{{{parent}}}')"),
        format!("SELECT id FROM {{schema}}.insert_job('b', expires_in => '1 h', after => '{{{parent}}}')"),
        format!("SELECT id FROM {{schema}}.insert_jobs('[{{\"kind\": \"brief\", \"after\": [\"{parent}\"]}}]')"),
    ] {
        let id: uuid::Uuid = sqlx::query_scalar(database.sql(&insert)).fetch_one(database.pool()).await.unwrap();
        assert!(counts_from_its_release(&database, id.into()).await, "{insert}");
    }
    // A child that is due later expires after that.
    let late = job("late").after(parent).scheduled_in(HOUR).expires_in(HOUR);
    let late = database.client.insert(late).await.unwrap().id();
    database.set_state(parent, "completed").await;
    database.execute("SELECT FROM {schema}._release_step(100, NULL, NULL, NULL)").await;
    let row = row(&database, late).await;
    assert_eq!((row.state, row.expires_at), (JobState::Scheduled, Some(row.scheduled_at + HOUR)));
}

#[support::test]
async fn r21_expires_at_of_a_pending_job_counts(database: Database) {
    let at = time::OffsetDateTime::now_utc() - HOUR;
    let id = database.client.insert(job("a").pending().expires_at(at)).await.unwrap().id();
    assert_eq!(database.number("SELECT expired FROM {schema}.maintain()").await, 1);
    assert_eq!(row(&database, id).await.state, JobState::Discarded);
}

#[support::test]
async fn r21_a_pending_job_that_stands_for_others_expires_no_sooner_than_they_would(database: Database) {
    let keys = [UniqueKey::raw("u").update(Update::merge()), UniqueKey::raw("r").on_conflict(OnConflict::RunAgain)];
    for key in keys {
        let new = || NewJob::new("a", &json!({"n": 1})).pending().unique_key(key.clone());
        let id = database.client.insert(new().expires_in(HOUR / 2)).await.unwrap().id();
        assert_eq!(database.client.insert(new().expires_in(HOUR)).await.unwrap().id(), id);
        assert!(counts_from_its_release(&database, id).await);
        let other = database.client.delete([id]).await.unwrap();
        assert_eq!(other, [id]);
        let id = database.client.insert(new().expires_in(HOUR)).await.unwrap().id();
        database.client.insert(new()).await.unwrap();
        database.client.release([id]).await.unwrap();
        assert_eq!(row(&database, id).await.expires_at, None);
        database.client.delete([id]).await.unwrap();
    }
}
