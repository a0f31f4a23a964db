//! Batches beside open transactions and other batches.

use super::unique;
use support::prelude::*;

/// A job that claims its key for so long, and replaces the holder.
fn replacing(period: Duration) -> NewJob {
    let key = UniqueKey::raw("b").scope(UniqueScope::Active).on_conflict(OnConflict::Replace);
    job("b").unique_key(key.period(period))
}

/// The order of work is the order of the batch, though keys are taken in an order of their own.
#[tokio::test]
async fn r10_a_batch_is_worked_in_its_own_order_however_its_keys_are_taken() {
    let texts = ["z", "plain", "m", "stale", "a", "plain", "k"];
    // The scope has running, which is an error for run_again.
    for on_conflict in OnConflict::ALL.into_iter().filter(|answer| *answer != OnConflict::RunAgain) {
        let database = Database::new().await;
        let client = &database.client;
        // A claim that has expired: one is enough for every key of the batch to be taken by itself.
        let stale = UniqueKey::raw("stale").scope(UniqueScope::Active).period(MINUTE);
        client.insert(job("b").pending().unique_key(stale)).await.unwrap();
        database.pass(MINUTE).await;
        let batch = texts.map(|text| match text {
            "plain" => job("a"),
            text => unique(text, on_conflict),
        });
        let answers = client.insert_many(batch).await.unwrap();
        assert!(answers.iter().all(|answer| !answer.duplicate));
        let in_order: Vec<_> = answers.iter().map(|answer| answer.id().to_string()).collect();
        let worked = "SELECT string_agg(id::text, ' ' ORDER BY priority DESC, scheduled_at, id)
            FROM {schema}.job WHERE state = 'available'";
        assert_eq!(database.text(worked).await, in_order.join(" "), "{on_conflict:?}");
        let early = "SELECT count(*) FROM {schema}.job WHERE scheduled_at > created_at";
        assert_eq!(database.number(early).await, 0, "a time of its own, as far as can be seen");
    }
}

/// Time that a batch spends waiting for a rival is not taken from the claims that it makes after that.
#[support::test]
async fn r10_claims_of_a_batch_that_waited_begin_when_they_are_made(database: Database, client: &Client) {
    let period = Duration::from_millis(600);
    let replacing = || replacing(period);
    let mut rival = database.pool().begin().await.unwrap();
    client.insert(unique("a", OnConflict::Ignore)).tx(&mut rival).await.unwrap();
    let batch =
        client.insert_many([unique("a", OnConflict::Reject), replacing(), replacing(), job("c").scheduled_in(WAIT)]);
    let batch = batch.into_future();
    let give_up = async {
        tokio::time::sleep(period + Duration::from_millis(200)).await;
        rival.rollback().await.unwrap();
    };
    let (answers, ()) = tokio::join!(batch, give_up);
    let answers = answers.unwrap();
    assert_eq!(answers[2].replaced, Some(answers[1].id()), "the claim of the first is not over yet");
    assert_eq!(answers[1].job.state, JobState::Cancelled);
    let last = &answers[2].job;
    assert_eq!(last.unique_until, Some(last.created_at + period));
    assert!(last.created_at - last.scheduled_at > period, "the order of work is that of the batch all the same");
    assert!(client.insert(unique("b", OnConflict::Ignore)).await.unwrap().duplicate);
}

/// The same for one that waited for the row of the holder that it replaces.
#[support::test]
async fn r10_a_claim_that_waited_for_its_holder_begins_when_it_is_made(database: Database, client: &Client) {
    let period = Duration::from_millis(600);
    client.insert(unique("b", OnConflict::Ignore)).await.unwrap();
    let locker = database.begin("SELECT FROM {schema}.job FOR UPDATE").await;
    let give_up = async {
        tokio::time::sleep(period + Duration::from_millis(200)).await;
        locker.rollback().await.unwrap();
    };
    let (new, ()) = tokio::join!(client.insert(replacing(period)).into_future(), give_up);
    let new = new.unwrap();
    let old = client.job(new.replaced.unwrap()).await.unwrap().unwrap();
    assert!(new.job.created_at >= old.finalized_at.unwrap(), "{new:?} {old:?}");
    assert!(client.insert(unique("b", OnConflict::Ignore)).await.unwrap().duplicate);
}

#[support::test(with_connections(8))]
async fn r10_batches_of_every_conflict_strategy_over_expiring_keys_never_deadlock(database: Database) {
    let write = |writer: usize| {
        let client = database.client.clone();
        async move {
            for batch in 0..15 {
                let mut keys: Vec<_> = (0..40).map(|n| format!("{n}")).collect();
                if writer % 2 == 1 {
                    keys.reverse();
                }
                let conflict = [OnConflict::Ignore, OnConflict::Replace][(writer + batch) % 2];
                let jobs = keys.iter().map(|key| {
                    let key = UniqueKey::raw(key).scope(UniqueScope::Active).period(Duration::from_millis(3));
                    job("a").unique_key(key.on_conflict(conflict))
                });
                client.insert_many(jobs).await.unwrap();
            }
        }
    };
    together((0..6).map(write)).await;
    let doubled =
        "SELECT count(*) FROM (SELECT FROM {schema}.job WHERE claims GROUP BY unique_key HAVING count(*) > 1) AS d";
    assert_eq!(database.number(doubled).await, 0);
}
