//! Batches of any size, and ids in them.

use super::unique;
use support::prelude::*;

#[support::test]
async fn r10_an_insert_sent_again_with_its_id_is_recognised(database: Database, client: &Client) {
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

#[support::test(with_connections(1))]
async fn r10_ten_thousand_mixed_jobs_take_one_statement(database: Database) {
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
    for (on_conflict, size) in
        [("ignore", 20_000), ("replace", 4_000), ("replace_except_schedule", 4_000), ("preempt", 4_000)]
    {
        takes_time_in_proportion(on_conflict, size).await;
    }
}

async fn takes_time_in_proportion(on_conflict: &str, size: usize) {
    let database = Database::with_connections(1).await;
    let insert = "SELECT count(*) FROM {schema}._insert_batch(
        ARRAY(
            SELECT jsonb_populate_record(
                NULL::{schema}.new_job,
                jsonb_build_object(
                    'place', n, 'id', gen_random_uuid(), 'kind', 'a', 'queue', 'default', 'args', '{}'::jsonb,
                    'meta', '{}'::jsonb, 'priority', 0, 'max_attempts', 25, 'unique_key', 'k', 'unique_states', 31,
                    'until_start', false, 'discard_on_reentry', false, 'on_conflict', $2::text
                )
            )
            FROM generate_series(1, $1) AS n
        ),
        true, false, NULL, NULL
    )";
    let insert = async |batches: usize| {
        let began = Instant::now();
        for _ in 0..batches {
            let answered =
                sqlx::query_scalar(database.sql(insert)).bind(i32::try_from(size / batches).unwrap()).bind(on_conflict);
            let answered: i64 = answered.fetch_one(database.pool()).await.unwrap();
            assert_eq!(answered.unsigned_abs() as usize, size / batches);
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
    panic!("{on_conflict}: in 20 batches, in one: {times:?}");
}

#[support::test]
async fn r10_a_rejected_job_names_a_holder_that_was_there_before_although_the_batch_has_its_id(database: Database) {
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
    assert_eq!(rejections[0].holder, Some(id));
    let by_sql = format!(
        "SELECT string_agg(concat_ws(' ', index, id, earlier, outcome), ', ' ORDER BY index)
        FROM {{schema}}.insert_jobs('[
            {{\"kind\": \"a\", \"id\": \"{id}\", \"unique_policy\": {{\"key\": \"k\", \"on_conflict\": \"reject\"}}}},
            {{\"kind\": \"a\", \"unique_policy\": {{\"key\": \"k\", \"on_conflict\": \"reject\"}}}}
        ]', on_reject => 'row')"
    );
    assert_eq!(database.text(&by_sql).await, format!("0 not_inserted, 1 {id} rejected"));
}

#[support::test]
async fn r10_one_id_twice_in_a_batch_is_the_first_job_whatever_keys_they_have(database: Database, client: &Client) {
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

#[support::test(with_connections(1))]
async fn r10_updates_that_each_fill_their_holder_read_and_write_each_job_once(database: Database) {
    const SIZE: i64 = 1_000;
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

fn keyed(on_conflict: OnConflict) -> NewJob {
    let scope = if on_conflict == OnConflict::RunAgain { UniqueScope::Queued } else { UniqueScope::Active };
    job("a").unique_key(UniqueKey::raw("k").scope(scope).on_conflict(on_conflict))
}

#[tokio::test]
async fn r9_a_rival_goes_on_when_an_insert_is_rolled_back_to_a_savepoint() {
    let looks = [OnConflict::Ignore, OnConflict::Reject];
    let changes = OnConflict::ALL.into_iter().filter(|answer| !looks.contains(answer));
    let changes = changes.map(|on_conflict| (on_conflict, true, 0));
    let ignores = [(OnConflict::Ignore, false, 0), (OnConflict::Ignore, false, 2)];
    for (on_conflict, has_holder, others) in changes.chain(ignores) {
        let database = Database::slow_to_see_deadlocks(3).await;
        let client = &database.client;
        if has_holder {
            client.insert(keyed(OnConflict::Ignore)).await.unwrap();
        }
        let mut tx = database.pool().begin().await.unwrap();
        let mut savepoint = tx.begin().await.unwrap();
        let others = (0..others).map(|n| unique(&format!("other {n}"), OnConflict::Ignore));
        client.insert_many([keyed(on_conflict)].into_iter().chain(others)).tx(&mut savepoint).await.unwrap();
        let rival = client.insert(keyed(OnConflict::Replace)).into_future();
        let roll_back = async {
            database.until_inserts_wait(1).await;
            savepoint.rollback().await.unwrap();
        };
        let (rival, ()) = timeout(WAIT, async { tokio::join!(rival, roll_back) })
            .await
            .unwrap_or_else(|_| panic!("the rival of {on_conflict:?} waits for the end of the whole transaction"));
        assert!(!rival.unwrap().duplicate);
        tx.rollback().await.unwrap();
    }
}

#[support::test(slow_to_see_deadlocks(3))]
async fn r10_batches_that_are_rolled_back_to_a_savepoint_do_not_deadlock(database: Database, client: &Client) {
    let batch = |keys: &[&str]| -> Vec<_> { keys.iter().map(|key| unique(key, OnConflict::Ignore)).collect() };
    let mut tx = database.pool().begin().await.unwrap();
    let mut savepoint = tx.begin().await.unwrap();
    client.insert_many(batch(&["c", "d"])).tx(&mut savepoint).await.unwrap();
    let (rival, jobs) = (client.clone(), batch(&["a", "c"]));
    let rival = tokio::spawn(async move { rival.insert_many(jobs).await });
    database.until_inserts_wait(1).await;
    savepoint.rollback().await.unwrap();
    // The rival has the first of these keys.
    let again = client.insert_many(batch(&["a", "b"])).tx(&mut tx).into_future();
    let answers = timeout(WAIT, again).await.expect("no deadlock").unwrap();
    assert_eq!(answers.iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [true, false]);
    assert_eq!(rival.await.unwrap().unwrap().len(), 2);
}

/// A job of nearly a megabyte.
fn large(key: &str, on_conflict: OnConflict) -> NewJob {
    let key = UniqueKey::raw(key).scope(UniqueScope::Active).on_conflict(on_conflict);
    NewJob::new("a", &json!({ "text": "x".repeat(1_000_000) })).unique_key(key)
}

/// Keys in descending order, of two parts.
fn keys() -> Vec<String> {
    (0..18).rev().map(|n| format!("k{n:02}")).collect()
}

#[support::test(with_connections(2))]
async fn r10_a_large_batch_is_sent_in_parts_that_mean_what_one_statement_means(database: Database, client: &Client) {
    let held = client.insert(large("k09", OnConflict::Ignore)).await.unwrap();
    let mut keys = keys();
    // Equal keys, far from each other in the call.
    keys.push("k17".to_owned());
    keys.push("k00".to_owned());
    let batch = || keys.iter().map(|key| large(key, OnConflict::Ignore)).chain([job("plain")]);
    let mut tx = database.pool().begin().await.unwrap();
    let (answers, statements) = counting_statements(client.insert_many(batch()).tx(&mut tx).into_future()).await;
    let answers = answers.unwrap();
    assert!(statements > 1, "{statements}");
    for (answer, key) in answers.iter().zip(&keys) {
        assert_eq!(answer.job.unique_key.as_ref(), Some(key));
    }
    let duplicates: Vec<_> = (0..answers.len()).filter(|n| answers[*n].duplicate).collect();
    assert_eq!(duplicates, [8, 18, 19]);
    assert_eq!((answers[8].id(), answers[18].id(), answers[19].id()), (held.id(), answers[0].id(), answers[17].id()));
    tx.commit().await.unwrap();
    let new: Vec<_> = answers.iter().filter(|answer| !answer.duplicate).map(|answer| answer.id().to_string()).collect();
    let worked =
        "SELECT string_agg(id::text, ' ' ORDER BY priority DESC, scheduled_at, id) FROM {schema}.job WHERE id <> ";
    assert_eq!(database.text(&format!("{worked}'{}'", held.id())).await, new.join(" "));
}

#[support::test(with_connections(3))]
async fn r10_a_large_batch_that_is_rejected_inserts_nothing_of_any_part(database: Database, client: &Client) {
    let last = client.insert(large("k17", OnConflict::Ignore)).await.unwrap();
    let first = client.insert(large("k00", OnConflict::Ignore)).await.unwrap();
    let batch = || keys().into_iter().map(|key| large(&key, OnConflict::Reject)).collect::<Vec<_>>();
    let mut tx = database.pool().begin().await.unwrap();
    let mut autocommit = database.pool().acquire().await.unwrap();
    for answer in [
        client.insert_many(batch()).tx(&mut tx).await,
        client.insert_many(batch()).tx(&mut autocommit).await,
        client.insert_many(batch()).await,
    ] {
        let Err(Error::Rejected(rejections)) = answer else { panic!("{answer:?}") };
        let named: Vec<_> = rejections.iter().map(|one| (one.index, one.holder)).collect();
        assert_eq!(named, [(0, Some(last.id())), (17, Some(first.id()))]);
    }
    client.insert(job("after")).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 3);
}

#[support::test(slow_to_see_deadlocks(4))]
async fn r10_large_batches_in_opposed_orders_never_deadlock(database: Database) {
    let inserts = [keys(), keys().into_iter().rev().collect()].map(|keys| {
        let client = database.client.clone();
        async move { client.insert_many(keys.iter().map(|key| large(key, OnConflict::Ignore))).await.unwrap() }
    });
    timeout(3 * WAIT, together(inserts)).await.expect("no deadlock");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 18);
}

#[support::test]
async fn r10_what_cannot_be_divided_is_refused_above_64_mb(database: Database) {
    let parent = database.client.insert(job("parent")).await.unwrap().id();
    let graph = (0..70).map(|n| large(&format!("k{n}"), OnConflict::Ignore).after(parent));
    let error = database.client.insert_many(graph).await.unwrap_err().to_string();
    assert!(error.starts_with("invalid after: ") && error.contains("64 MB"), "{error}");
    let insert = "SELECT {schema}.insert_jobs(jsonb_agg(jsonb_build_object('kind', 'a', 'args', repeat('x', 1000000))))
        FROM generate_series(1, 70)";
    let error = sqlx::query(database.sql(insert)).execute(database.pool()).await.unwrap_err().to_string();
    assert!(error.contains("invalid jobs: must not exceed 64 MB: 66 MB"), "{error}");
}
