//! R1, R2, R3, R5, R8: the holder of a key, and the cost of a duplicate.

use support::prelude::*;

fn key(text: &str) -> UniqueKey {
    UniqueKey::raw(text).scope(UniqueScope::Active)
}

#[support::test(with_connections(32))]
async fn r1_one_of_many_concurrent_inserts_wins_and_all_others_get_it(database: Database) {
    for round in 0..20 {
        let insert = |_| {
            let client = database.client.clone();
            async move { client.insert(job("a").unique_key(key(&format!("k{round}")))).await.unwrap() }
        };
        let answers = together((0..32).map(insert)).await;
        assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
        assert!(answers.iter().all(|answer| answer.id() == answers[0].id()));
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 20);
}

#[support::test]
async fn r1_the_index_itself_refuses_a_second_claim(database: Database) {
    database.client.insert(job("a").unique_key(key("k"))).await.unwrap();
    let second =
        "INSERT INTO {schema}.job (id, kind, unique_key, unique_states) VALUES (gen_random_uuid(), 'a', 'k', 1)";
    assert_eq!(database.refused(second).await.0, "23505");
}

#[support::test]
async fn r2_a_duplicate_says_which_key_who_holds_it_and_what_frees_it(database: Database) {
    let first = database.client.insert(job("a").unique_key(key("k").period(10 * MINUTE))).await.unwrap();
    assert_eq!(first.duplicate_of(), None);
    database.pass(MINUTE).await;
    database.set_state(first.id(), "running").await;
    let duplicate = database.client.insert(job("a").unique_key(key("k"))).await.unwrap().duplicate_of().unwrap();
    assert_eq!((duplicate.unique_key.as_str(), duplicate.holder), ("k", first.id()));
    assert_eq!(duplicate.holder_state, JobState::Running);
    assert!(duplicate.holder_age >= MINUTE && duplicate.holder_age < 2 * MINUTE, "{:?}", duplicate.holder_age);
    assert!(duplicate.frees().starts_with("when it is "), "{}", duplicate.frees());
    assert!(duplicate.frees().contains("; at the latest at 20"), "{}", duplicate.frees());
}

#[support::test]
async fn r3_an_open_duplicate_does_not_lock_or_delay_the_holder(database: Database, client: &Client) {
    let holder = client.insert(job("a").unique_key(key("k"))).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    assert!(client.insert(job("a").unique_key(key("k"))).tx(&mut tx).await.unwrap().duplicate);
    let rejected = client.insert(job("a").unique_key(key("k").on_conflict(uniqueue::OnConflict::Reject)));
    assert!(rejected.tx(&mut tx).await.unwrap_err().is_duplicate());
    // Another connection starts, finishes and deletes the holder while the transaction is open.
    let mut other = database.pool().acquire().await.unwrap();
    sqlx::query("SET lock_timeout = '1s'").execute(&mut *other).await.unwrap();
    for change in [
        "UPDATE {schema}.job SET state = 'running', worker = gen_random_uuid(), attempt = 1",
        "UPDATE {schema}.job SET state = 'completed', finalized_at = now()",
        "DELETE FROM {schema}.job",
    ] {
        let changed = sqlx::query(database.sql(change)).execute(&mut *other).await.unwrap();
        assert_eq!(changed.rows_affected(), 1, "{change}");
    }
    sqlx::query("RESET lock_timeout").execute(&mut *other).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(client.job(holder.id()).await.unwrap().map(|job| job.id), None);
}

#[support::test]
async fn a_scheduled_job_waits_and_a_pending_one_is_held_back(database: Database, client: &Client) {
    let scheduled = client.insert(job("a").scheduled_in(MINUTE)).await.unwrap();
    assert_eq!(scheduled.job.state, JobState::Scheduled);
    assert_eq!(scheduled.job.scheduled_at - scheduled.job.created_at, MINUTE);
    let pending = client.insert(job("a").pending().unique_key(key("k"))).await.unwrap();
    assert_eq!(pending.job.state, JobState::Pending);
    let past = time::OffsetDateTime::UNIX_EPOCH;
    assert_eq!(client.insert(job("a").scheduled_at(past)).await.unwrap().job.state, JobState::Available);
}
