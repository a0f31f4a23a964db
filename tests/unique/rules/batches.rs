//! R10: a batch has the same result as its inserts one after another.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::timeout;
use uniqueue::{Error, JobId, JobState, NewJob, OnConflict, UniqueKey, UniqueScope, Update};
use uuid::Uuid;

use support::{Database, WAIT, counting_statements, job};

fn unique(text: &str, on_conflict: OnConflict) -> NewJob {
    job("a").unique_key(UniqueKey::raw(text).scope(UniqueScope::Active).on_conflict(on_conflict))
}

/// A job that claims its key for so long, and replaces the holder.
fn replacing(period: Duration) -> NewJob {
    let key = UniqueKey::raw("b").scope(UniqueScope::Active).on_conflict(OnConflict::Replace);
    job("b").unique_key(key.period(period))
}

#[tokio::test]
async fn r10_results_come_in_input_order_one_per_input() {
    let database = Database::new().await;
    let client = &database.client;
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

#[tokio::test]
async fn r10_equal_keys_fold_under_replace_onto_the_last() {
    let database = Database::new().await;
    let client = &database.client;
    let held = client.insert(unique("k", OnConflict::Ignore)).await.unwrap();
    let jobs = [unique("k", OnConflict::Replace), unique("k", OnConflict::Replace), unique("k", OnConflict::Ignore)];
    let answers = client.insert_many(jobs).await.unwrap();
    assert_eq!(answers[0].replaced, Some(held.id()));
    assert_eq!((answers[0].job.state, answers[0].job.replaced_by), (JobState::Cancelled, Some(answers[1].id())));
    assert_eq!(answers[1].job.state, JobState::Available);
    assert!(answers[2].duplicate);
    assert_eq!(answers[2].id(), answers[1].id());
}

#[tokio::test]
async fn r10_equal_keys_do_not_fold_onto_a_job_that_does_not_claim() {
    let database = Database::new().await;
    let only_running = || job("a").unique_key(UniqueKey::raw("k").states([JobState::Running]));
    let answers = database.client.insert_many([only_running(), only_running()]).await.unwrap();
    assert!(answers.iter().all(|answer| !answer.duplicate));
    // A scheduled leader with a mask of available only does not claim either.
    let only_available = || job("a").unique_key(UniqueKey::raw("k2").states([JobState::Available]));
    let later = only_available().scheduled_in(Duration::from_secs(60));
    let answers = database.client.insert_many([later, only_available(), only_available()]).await.unwrap();
    let duplicates: Vec<_> = answers.iter().map(|answer| answer.duplicate).collect();
    assert_eq!(duplicates, [false, false, true]);
}

#[tokio::test]
async fn r10_a_batch_of_any_size_meets_the_holders_even_of_jobs_that_do_not_claim_yet() {
    let database = Database::new().await;
    let client = &database.client;
    for size in [1_usize, 2, 100, 101, 1_000] {
        let keyed = |n: usize| UniqueKey::raw(format!("{size} {n}"));
        client.insert_many((0..size).map(|n| job("a").unique_key(keyed(n)))).await.unwrap();
        let only_running = (0..size).map(|n| job("a").unique_key(keyed(n).states([JobState::Running])));
        let answers = client.insert_many(only_running).await.unwrap();
        assert!(answers.iter().all(|answer| answer.duplicate), "{size}");
    }
}

#[tokio::test]
async fn r10_a_batch_of_duplicates_waits_for_nobody_who_is_changing_a_holder() {
    const SIZE: usize = 300;
    let database = Database::new().await;
    let client = &database.client;
    let keyed = || (0..SIZE).map(|n| job("a").unique_key(UniqueKey::raw(n.to_string())));
    let first = client.insert_many(keyed()).await.unwrap();
    let mut open = database.pool().begin().await.unwrap();
    client.cancel([first[7].id()]).tx(&mut open).await.unwrap();
    let answers = timeout(WAIT, client.insert_many(keyed()).into_future()).await.expect("no wait").unwrap();
    assert!(answers.iter().all(|answer| answer.duplicate));
    open.rollback().await.unwrap();
}

#[tokio::test]
async fn r10_a_rejected_batch_reports_each_duplicate_and_inserts_nothing() {
    let database = Database::new().await;
    let client = &database.client;
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
    assert_eq!(named, [(1, two.id()), (3, one.id())]);
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 2);
}

#[tokio::test]
async fn r10_a_batch_that_rejects_itself_says_which_input_was_first() {
    let database = Database::new().await;
    let jobs = [job("plain"), unique("k", OnConflict::Reject), unique("k", OnConflict::Reject)];
    let error = database.client.insert_many(jobs).await.unwrap_err();
    let [rejection] = error.rejections() else { panic!("{error}") };
    assert_eq!((rejection.index, rejection.earlier), (2, Some(1)));
    assert_eq!(error.to_string(), "duplicate: the unique key is held by job 1 of the same call");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

/// The order of work is the order of the batch, though keys are taken in an order of their own.
#[tokio::test]
async fn r10_a_batch_is_worked_in_its_own_order_however_its_keys_are_taken() {
    let texts = ["z", "plain", "m", "stale", "a", "plain", "k"];
    for on_conflict in [
        OnConflict::Reject,
        OnConflict::Replace,
        OnConflict::ReplaceExceptSchedule,
        OnConflict::Preempt,
        OnConflict::Update,
        OnConflict::Ignore,
    ] {
        let database = Database::new().await;
        let client = &database.client;
        // A claim that has expired: one is enough for every key of the batch to be taken by itself.
        let stale = UniqueKey::raw("stale").scope(UniqueScope::Active).period(Duration::from_millis(1));
        client.insert(job("b").pending().unique_key(stale)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
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
#[tokio::test]
async fn r10_claims_of_a_batch_that_waited_begin_when_they_are_made() {
    let database = Database::new().await;
    let client = &database.client;
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
#[tokio::test]
async fn r10_a_claim_that_waited_for_its_holder_begins_when_it_is_made() {
    let database = Database::new().await;
    let client = &database.client;
    let period = Duration::from_millis(600);
    client.insert(unique("b", OnConflict::Ignore)).await.unwrap();
    let mut locker = database.pool().begin().await.unwrap();
    sqlx::query(database.sql("SELECT FROM {schema}.job FOR UPDATE")).execute(&mut *locker).await.unwrap();
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

#[tokio::test]
async fn r10_overlapping_batches_in_opposed_orders_never_deadlock() {
    let database = Database::with_connections(8).await;
    let tasks: Vec<_> = (0..8)
        .map(|writer| {
            let client = database.client.clone();
            tokio::spawn(async move {
                for batch in 0..25 {
                    let mut keys: Vec<_> = (0..200).map(|n| format!("{batch} {n}")).collect();
                    if writer % 2 == 1 {
                        keys.reverse();
                    }
                    let jobs = keys.iter().map(|key| unique(key, OnConflict::Ignore));
                    let answers = client.insert_many(jobs).await.unwrap();
                    for (answer, key) in answers.iter().zip(&keys) {
                        assert_eq!(answer.job.unique_key.as_ref(), Some(key));
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 25 * 200);
}

#[tokio::test]
async fn r10_batches_of_every_conflict_strategy_over_expiring_keys_never_deadlock() {
    let database = Database::with_connections(8).await;
    let tasks: Vec<_> = (0..6)
        .map(|writer: usize| {
            let client = database.client.clone();
            tokio::spawn(async move {
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
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let doubled =
        "SELECT count(*) FROM (SELECT FROM {schema}.job WHERE claims GROUP BY unique_key HAVING count(*) > 1) AS d";
    assert_eq!(database.number(doubled).await, 0);
}

#[tokio::test]
async fn r10_an_insert_sent_again_with_its_id_is_recognised() {
    let database = Database::new().await;
    let client = &database.client;
    let id = JobId::generate();
    for _ in 0..3 {
        let answer = client.insert(job("a").id(id)).await.unwrap();
        assert!(!answer.duplicate);
        assert_eq!(answer.id(), id);
        let keyed = client.insert(unique("k", OnConflict::Reject).id(JobId::from(uuid::Uuid::nil()))).await.unwrap();
        assert!(!keyed.duplicate);
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 2);
}

#[tokio::test]
async fn r10_ten_thousand_mixed_jobs_take_one_statement() {
    let database = Database::with_connections(1).await;
    let jobs: Vec<_> = (0..10_000)
        .map(|n| match n % 3 {
            0 => job("plain").queue(format!("q{}", n % 7)),
            1 => unique(&format!("k{n}"), OnConflict::Ignore),
            _ => unique(&format!("k{}", n / 2), OnConflict::Ignore).priority(2),
        })
        .collect();
    let (answers, statements) = counting_statements(database.client.insert_many(jobs).into_future()).await;
    assert_eq!(answers.unwrap().len(), 10_000);
    assert_eq!(statements, 1);
    let mut tx = database.pool().begin().await.unwrap();
    let jobs: Vec<_> = (0..10_000).map(|_| job("plain")).collect();
    let inserting = database.client.insert_many(jobs).tx(&mut tx).into_future();
    let (answers, statements) = counting_statements(inserting).await;
    assert_eq!(answers.unwrap().len(), 10_000);
    assert_eq!(statements, 1);
}

#[tokio::test]
async fn r10_a_batch_takes_time_in_proportion_to_its_jobs() {
    const SIZE: usize = 20_000;
    let database = Database::with_connections(1).await;
    let insert = "SELECT count(*) FROM {schema}._insert_batch(
        ARRAY(
            SELECT jsonb_populate_record(
                NULL::{schema}.new_job,
                jsonb_build_object(
                    'place', n, 'id', gen_random_uuid(), 'kind', 'a', 'queue', 'default', 'args', '{}'::jsonb,
                    'meta', '{}'::jsonb, 'priority', 0, 'max_attempts', 25, 'unique_key', 'k', 'unique_states', 31,
                    'until_start', false, 'discard_on_reentry', false, 'on_conflict', 'ignore'
                )
            )
            FROM generate_series(1, $1) AS n
        ),
        true, false, NULL, NULL
    )";
    let insert = async |batches: usize| {
        let began = Instant::now();
        for _ in 0..batches {
            let answered = sqlx::query_scalar(database.sql(insert)).bind(i32::try_from(SIZE / batches).unwrap());
            let answered: i64 = answered.fetch_one(database.pool()).await.unwrap();
            assert_eq!(answered.unsigned_abs() as usize, SIZE / batches);
        }
        began.elapsed()
    };
    // The machine may be busy with something else for a while.
    let mut times = Vec::new();
    for _ in 0..3 {
        let (small, large) = (insert(20).await, insert(1).await);
        if large < small * 3 {
            return;
        }
        times.push((small, large));
    }
    panic!("in 20 batches, in one: {times:?}");
}

#[tokio::test]
async fn r10_a_rejected_job_names_a_holder_that_was_there_before_although_the_batch_has_its_id() {
    let database = Database::new().await;
    let client = &database.client;
    let id = JobId::from(Uuid::now_v7());
    let rejecting = || unique("k", OnConflict::Reject);
    client.insert(rejecting().id(id)).await.unwrap();
    // The first is sent again. The second meets its job. The last two meet each other.
    let others = || unique("other", OnConflict::Reject);
    let batch = || [rejecting().id(id), rejecting(), others(), others()];
    let Error::Rejected(rejections) = client.insert_many(batch()).await.unwrap_err() else { panic!() };
    let told: Vec<_> = rejections.iter().map(|rejection| (rejection.index, rejection.earlier)).collect();
    assert_eq!(told, [(1, None), (3, Some(2))]);
    assert_eq!(rejections[0].holder, id);
    let by_sql = format!(
        "SELECT string_agg(concat_ws(' ', index, id, earlier, outcome), ', ' ORDER BY index)
        FROM {{schema}}.insert_jobs('[
            {{\"kind\": \"a\", \"id\": \"{id}\", \"unique_policy\": {{\"key\": \"k\", \"on_conflict\": \"reject\"}}}},
            {{\"kind\": \"a\", \"unique_policy\": {{\"key\": \"k\", \"on_conflict\": \"reject\"}}}}
        ]', on_reject => 'row')"
    );
    assert_eq!(database.text(&by_sql).await, format!("0 not_inserted, 1 {id} rejected"));
}

#[tokio::test]
async fn r10_one_id_twice_in_a_batch_is_the_first_job_whatever_keys_they_have() {
    let database = Database::new().await;
    let client = &database.client;
    for (first, second) in [("a", "b"), ("d", "c")] {
        let id = JobId::from(Uuid::now_v7());
        let jobs = [unique(first, OnConflict::Ignore).id(id), unique(second, OnConflict::Ignore).id(id)];
        let answers = client.insert_many(jobs).await.unwrap();
        let told: Vec<_> = answers.iter().map(|answer| (answer.id(), answer.duplicate)).collect();
        assert_eq!(told, [(id, false), (id, false)]);
        assert_eq!(client.job(id).await.unwrap().unwrap().unique_key.as_deref(), Some(first));
        assert!(client.holder(second).await.unwrap().is_none());
    }
    // The first is a duplicate, so the second is a new job.
    let id = JobId::from(Uuid::now_v7());
    let answers = client.insert_many(["a", "e"].map(|key| unique(key, OnConflict::Ignore).id(id))).await.unwrap();
    assert_eq!((answers[0].duplicate, answers[1].duplicate, answers[1].id()), (true, false, id));
}

#[tokio::test]
async fn r10_updates_that_each_fill_their_holder_read_and_write_each_job_once() {
    const SIZE: i64 = 1_000;
    let database = Database::with_connections(1).await;
    let append = |n: i64| {
        let key = UniqueKey::raw("k").update(Update::append().max_items(1));
        NewJob::new("a", &json!({"i": [n]})).unique_key(key).pending()
    };
    let mut tx = database.pool().begin().await.unwrap();
    let answers = database.client.insert_many((0..SIZE).map(append)).tx(&mut tx).await.unwrap();
    assert!(answers.iter().all(|answer| !answer.duplicate && !answer.updated));
    let last = &answers.last().unwrap().job;
    assert_eq!((last.claims, answers.iter().filter(|answer| answer.job.claims).count()), (true, 1));
    let statistics = "SELECT ARRAY[n_tup_ins, n_tup_upd, seq_tup_read + idx_tup_fetch]
        FROM pg_stat_xact_all_tables WHERE relid = '{schema}.job'::regclass";
    let counts: Vec<i64> = sqlx::query_scalar(database.sql(statistics)).fetch_one(&mut *tx).await.unwrap();
    assert_eq!(counts[..2], [SIZE, 0]);
    assert!(counts[2] < 3 * SIZE, "{} rows were read", counts[2]);
    tx.rollback().await.unwrap();
}
