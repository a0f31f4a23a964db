//! The answers of a batch.

use super::unique;
use support::prelude::*;

#[support::test]
async fn r10_results_come_in_input_order_one_per_input(database: Database, client: &Client) {
    let held = client.insert(unique("k3", OnConflict::Ignore)).await.unwrap();
    let kinds = ["z", "k3", "y", "k1", "k1", "x", "k2", "k3"];
    let jobs = kinds.map(|text| match text.strip_prefix('k') {
        Some(_) => unique(text, OnConflict::Ignore).queue(format!("q{text}")),
        None => job(text),
    });
    let answers = client.insert_many(jobs).await.unwrap();
    let duplicates: Vec<_> = answers.iter().map(|answer| answer.duplicate).collect();
    assert_eq!(duplicates, [false, true, false, false, true, false, false, true]);
    assert_eq!(answers[1].id(), held.id());
    assert_eq!(answers[4].id(), answers[3].id());
    assert_eq!(answers[7].id(), held.id());
    for (answer, kind) in answers.iter().zip(kinds) {
        match &answer.job.unique_key {
            Some(key) => assert_eq!(key, kind),
            None => assert_eq!(answer.job.kind.as_str(), kind),
        }
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 6);
    assert!(client.insert_many(Vec::<NewJob>::new()).await.unwrap().is_empty());
}

#[support::test]
async fn r10_equal_keys_fold_under_replace_onto_the_last_and_earlier_duplicates_name_it(database: Database) {
    let client = &database.client;
    let held = client.insert(unique("k", OnConflict::Ignore)).await.unwrap();
    let (ignore, replace) = (OnConflict::Ignore, OnConflict::Replace);
    let jobs = [ignore, replace, ignore, replace, ignore].map(|on_conflict| unique("k", on_conflict));
    let answers = client.insert_many(jobs).await.unwrap();
    assert_eq!((answers[1].replaced, answers[3].replaced), (Some(held.id()), Some(answers[1].id())));
    assert_eq!((answers[1].job.state, answers[1].job.replaced_by), (JobState::Cancelled, Some(answers[3].id())));
    assert!(!answers[3].duplicate);
    for place in [0, 2, 4] {
        let duplicate = &answers[place];
        assert_eq!(
            (duplicate.duplicate, duplicate.id(), duplicate.job.claims),
            (true, answers[3].id(), true),
            "{place}"
        );
        assert_eq!(duplicate.job.state, JobState::Available);
    }
}

#[support::test]
async fn r10_equal_keys_do_not_fold_onto_a_job_that_does_not_claim(database: Database) {
    let only_running = || job("a").unique_key(UniqueKey::raw("k").states([JobState::Running]));
    let answers = database.client.insert_many([only_running(), only_running()]).await.unwrap();
    assert!(answers.iter().all(|answer| !answer.duplicate));
    // A scheduled leader with a mask of available only does not claim either.
    let only_available = || job("a").unique_key(UniqueKey::raw("k2").states([JobState::Available]));
    let later = only_available().scheduled_in(MINUTE);
    let answers = database.client.insert_many([later, only_available(), only_available()]).await.unwrap();
    let duplicates: Vec<_> = answers.iter().map(|answer| answer.duplicate).collect();
    assert_eq!(duplicates, [false, false, true]);
}

#[support::test]
async fn r10_a_batch_of_any_size_meets_the_holders_even_of_jobs_that_do_not_claim_yet(database: Database) {
    let client = &database.client;
    for size in [1_usize, 2, 100, 101, 1_000] {
        let keyed = |n: usize| UniqueKey::raw(format!("{size} {n}"));
        client.insert_many((0..size).map(|n| job("a").unique_key(keyed(n)))).await.unwrap();
        let only_running = (0..size).map(|n| job("a").unique_key(keyed(n).states([JobState::Running])));
        let answers = client.insert_many(only_running).await.unwrap();
        assert!(answers.iter().all(|answer| answer.duplicate), "{size}");
    }
}

#[support::test]
async fn r10_a_batch_of_duplicates_waits_for_nobody_who_is_changing_a_holder(database: Database, client: &Client) {
    const SIZE: usize = 300;
    let keyed = || (0..SIZE).map(|n| job("a").unique_key(UniqueKey::raw(n.to_string())));
    let first = client.insert_many(keyed()).await.unwrap();
    let mut open = database.pool().begin().await.unwrap();
    client.cancel([first[7].id()]).tx(&mut open).await.unwrap();
    let answers = timeout(WAIT, client.insert_many(keyed()).into_future()).await.expect("no wait").unwrap();
    assert!(answers.iter().all(|answer| answer.duplicate));
    open.rollback().await.unwrap();
}

#[support::test]
async fn r10_a_rejected_batch_reports_each_duplicate_and_inserts_nothing(database: Database, client: &Client) {
    let one = client.insert(unique("k1", OnConflict::Ignore)).await.unwrap();
    let two = client.insert(unique("k2", OnConflict::Ignore)).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let jobs = [
        unique("new", OnConflict::Reject),
        unique("k2", OnConflict::Reject),
        unique("k1", OnConflict::Ignore),
        unique("k1", OnConflict::Reject),
    ];
    let error = client.insert_many(jobs).tx(&mut tx).await.unwrap_err();
    let named: Vec<_> = error.rejections().iter().map(|rejection| (rejection.index, rejection.holder)).collect();
    assert_eq!(named, [(1, Some(two.id())), (3, Some(one.id()))]);
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 2);
}

#[support::test]
async fn r10_a_batch_that_rejects_itself_says_which_input_was_first(database: Database) {
    let jobs = [job("plain"), unique("k", OnConflict::Reject), unique("k", OnConflict::Reject)];
    let error = database.client.insert_many(jobs).await.unwrap_err();
    let [rejection] = error.rejections() else { panic!("{error}") };
    assert_eq!((rejection.index, rejection.earlier), (2, Some(1)));
    assert_eq!(
        (rejection.holder, &rejection.duplicate),
        (None, &None),
        "no row has the id of a job that was not inserted"
    );
    assert_eq!(error.to_string(), "duplicate: the unique key is held by job 1 of the same call");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}
