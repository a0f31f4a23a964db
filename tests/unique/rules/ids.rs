//! An id that exists: the same insert sent again, or an error that names both jobs.

use support::prelude::*;

fn invoice(kind: &str, queue: &str, order: u32, id: Uuid) -> NewJob {
    NewJob::new(kind, &json!({"order": order})).queue(queue).id(id)
}

/// Jobs that have one id and are not the same as `send`, `default`, 7.
fn others(id: Uuid) -> [NewJob; 3] {
    [invoice("archive", "default", 7, id), invoice("send", "other", 7, id), invoice("send", "default", 8, id)]
}

fn assert_names_both(error: &Error, id: Uuid) {
    let Error::Database(sqlx::Error::Database(said)) = error else { panic!("{error}") };
    assert_eq!((said.code().as_deref(), said.constraint()), (Some("23505"), Some("job_pkey")), "{error}");
    let text = said.message();
    assert!(text.starts_with(&format!("id {id} belongs to another job: of kind \"send\"")), "{text}");
    assert!(
        ["kind \"archive\"", "queue \"other\"", "with other args"].iter().any(|part| text.contains(part)),
        "{text}"
    );
}

#[support::test]
async fn an_id_that_exists_is_the_same_insert_or_an_error_that_names_both(database: Database, client: &Client) {
    for id in [Uuid::now_v7(), Uuid::nil()] {
        for state in ["available", "running", "completed", "cancelled"] {
            database.execute("DELETE FROM {schema}.job").await;
            let same = || invoice("send", "default", 7, id);
            assert!(!client.insert(same()).await.unwrap().duplicate);
            database.set_state(id.into(), state).await;
            let again = client.insert(same()).await.unwrap();
            assert_eq!((again.duplicate, again.id().as_uuid(), again.job.state.as_str()), (false, id, state));
            assert_eq!(client.insert_many([same(), same(), same()]).await.unwrap()[2].id().as_uuid(), id);
            for other in others(id) {
                for on_conflict in OnConflict::ALL {
                    let keyed = other.clone().unique_key(UniqueKey::raw("k").on_conflict(on_conflict));
                    assert_names_both(&client.insert(keyed.clone()).await.unwrap_err(), id);
                    let batch = [NewJob::new("plain", &json!({})), keyed];
                    assert_names_both(&client.insert_many(batch).await.unwrap_err(), id);
                }
                assert_names_both(&client.insert(other.clone()).await.unwrap_err(), id);
                assert_names_both(&client.explain(other.clone()).await.unwrap_err(), id);
                let mut connection = database.pool().acquire().await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                assert_names_both(&client.insert(other).tx(&mut tx).await.unwrap_err(), id);
            }
            assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
        }
    }
}

#[support::test]
async fn one_id_twice_in_a_batch_is_one_job_or_an_error(database: Database, client: &Client) {
    let id = Uuid::now_v7();
    let same = invoice("send", "default", 7, id);
    for other in others(id) {
        assert_names_both(&client.insert_many([same.clone(), other]).await.unwrap_err(), id);
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
    let keyed = |text: &str| invoice("send", "default", 7, id).unique_key(UniqueKey::raw(text));
    let answers = client.insert_many([keyed("b"), same, keyed("a")]).await.unwrap();
    assert!(answers.iter().all(|answer| answer.id().as_uuid() == id && !answer.duplicate));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
}

/// Updates changed its args, so they do not tell the insert that is sent again from another.
#[support::test]
async fn an_insert_is_recognised_by_its_id_after_updates_changed_its_args(database: Database, client: &Client) {
    let id = Uuid::now_v7();
    let key = || UniqueKey::raw("k").on_conflict(OnConflict::Update);
    let first = || invoice("send", "default", 7, id).unique_key(key()).pending();
    client.insert(first()).await.unwrap();
    assert!(client.insert(invoice("send", "default", 8, Uuid::now_v7()).unique_key(key())).await.unwrap().updated);
    let again = client.insert(first()).await.unwrap();
    assert_eq!((again.id().as_uuid(), again.updated, again.job.updates), (id, false, 1));
    assert_eq!(again.job.state, JobState::Pending);
    client.insert(invoice("archive", "default", 7, id)).await.unwrap_err();
}
