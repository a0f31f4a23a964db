//! R3, R9, R10: inserts of jobs whose keys are free, and of some whose keys are not.

use support::prelude::*;

fn unique(text: &str) -> NewJob {
    job("a").unique_key(UniqueKey::raw(text).scope(UniqueScope::Active))
}

#[support::test(with_connections(2))]
async fn r3_a_batch_of_duplicates_writes_nothing_and_leaves_the_callers_lock_timeout(database: Database) {
    let client = &database.client;
    client.insert_many(["a", "b"].map(unique)).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    sqlx::raw_sql("SET LOCAL lock_timeout = '7s'").execute(&mut *tx).await.unwrap();
    let answers = client.insert_many(["b", "a"].map(unique)).tx(&mut tx).await.unwrap();
    assert!(answers.iter().all(|answer| answer.duplicate));
    let alone = client.insert(unique("a")).tx(&mut tx).await.unwrap();
    assert!(alone.duplicate);
    // A transaction gets a number when it first writes anything.
    let wrote = "SELECT pg_current_xact_id_if_assigned()::text";
    assert_eq!(sqlx::query_scalar::<_, Option<String>>(wrote).fetch_one(&mut *tx).await.unwrap(), None);
    let limited = client.insert_many(["c", "a"].map(unique)).max_wait(Duration::from_millis(50)).tx(&mut tx).await;
    assert_eq!(limited.unwrap().iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [false, true]);
    let lock_timeout: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(lock_timeout, "7s");
    tx.rollback().await.unwrap();
}

#[support::test(with_connections(3))]
async fn r10_an_insert_in_a_transaction_takes_one_statement_but_where_a_claim_is_over(database: Database) {
    let client = &database.client;
    let old = client.insert(job("a").unique_key(UniqueKey::raw("old").period(HOUR))).await.unwrap();
    database.pass(HOUR).await;
    client.insert(unique("held")).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let (new, statements) = counting_statements(client.insert(unique("x")).tx(&mut tx).into_future()).await;
    assert_eq!((new.unwrap().duplicate, statements), (false, 1));
    // A transaction that changes the holder does not hold it up.
    let changing = database.begin("UPDATE {schema}.job SET progress = '{}' WHERE unique_key = 'held'").await;
    let inserting = timeout(WAIT, client.insert(unique("held")).tx(&mut tx).into_future());
    let (met, statements) = counting_statements(inserting).await;
    let met = met.expect("an answer at once").unwrap();
    assert_eq!((met.duplicate, met.job.unique_key.as_deref(), statements), (true, Some("held"), 1));
    changing.rollback().await.unwrap();

    let (new, statements) = counting_statements(client.insert(unique("old")).tx(&mut tx).into_future()).await;
    let new = new.unwrap();
    assert!(!new.duplicate && new.id() != old.id());
    assert_eq!(statements, 2, "the look, then the release of the claim that is over");
    // One that this transaction has inserted, in a batch.
    let batch = ["y", "x", "z"].map(unique);
    let (answers, statements) = counting_statements(client.insert_many(batch).tx(&mut tx).into_future()).await;
    assert_eq!(answers.unwrap().iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(statements, 1);
    // In a savepoint, which is rolled back.
    let mut savepoint = tx.begin().await.unwrap();
    let answers = client.insert_many(["s", "t"].map(unique)).tx(&mut savepoint).await.unwrap();
    assert!(answers.iter().all(|answer| !answer.duplicate));
    savepoint.rollback().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 6);
}

#[support::test(with_connections(1))]
async fn new_jobs_are_looked_for_by_index_however_small_the_table_was(database: Database, client: &Client) {
    let mut tx = database.pool().begin().await.unwrap();
    let one = async |tx: &mut PgConnection, key: &str| client.insert(unique(key)).tx(tx).await.unwrap().duplicate;
    let two = async |tx: &mut PgConnection, keys: [&str; 2]| {
        let answers = client.insert_many(keys.map(unique)).tx(tx).await.unwrap();
        answers.iter().map(|answer| answer.duplicate).collect::<Vec<_>>()
    };
    // PostgreSQL plans some times anew before it takes to one plan.
    for round in 0..10 {
        assert!(!one(&mut tx, &format!("{round}")).await);
        assert_eq!(two(&mut tx, [&format!("{round} a"), &format!("{round} b")]).await, [false, false]);
    }
    let jobs = "INSERT INTO {schema}.job (id, kind, unique_key, unique_states)
        SELECT {schema}.new_job_id(), 'a', 'many ' || n, 31 FROM generate_series(1, 3000) AS n";
    sqlx::query(database.sql(jobs)).execute(&mut *tx).await.unwrap();
    let read = "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = '{schema}.job'::regclass";
    let before: i64 = sqlx::query_scalar(database.sql(read)).fetch_one(&mut *tx).await.unwrap();
    assert!(one(&mut tx, "many 3000").await && !one(&mut tx, "new").await);
    assert_eq!(two(&mut tx, ["newer", "many 1"]).await, [false, true]);
    assert_eq!(sqlx::query_scalar::<_, i64>(database.sql(read)).fetch_one(&mut *tx).await.unwrap(), before);
}

/// A snapshot with many subtransactions slows all sessions down.
#[support::test]
async fn single_new_jobs_in_a_transaction_take_no_subtransaction_each(database: Database, client: &Client) {
    let mut tx = database.pool().begin().await.unwrap();
    for n in 0..10 {
        let inserting = client.insert(unique(&format!("k{n}"))).tx(&mut tx).into_future();
        assert_eq!(counting_statements(inserting).await.1, 1);
    }
    tx.commit().await.unwrap();
    let writers = "SELECT count(DISTINCT xmin::text) FROM {schema}.job WHERE unique_key LIKE 'k%'";
    assert_eq!(database.number(writers).await, 1);
}

#[support::test]
async fn a_single_new_job_in_a_transaction_wakes_an_idle_runner(database: Database, client: &Client) {
    let mut listener = database.listen(&["job"]).await;
    database.idle_runner("default").await;
    for jobs in [vec![unique("a")], vec![unique("b"), unique("c")]] {
        let mut tx = database.pool().begin().await.unwrap();
        let (inserted, statements) = counting_statements(client.insert_many(jobs).tx(&mut tx).into_future()).await;
        assert_eq!((inserted.unwrap().iter().any(|answer| answer.duplicate), statements), (false, 1));
        tx.commit().await.unwrap();
        assert_eq!(timeout(WAIT, listener.recv()).await.unwrap().unwrap().payload(), "default");
        database.execute("UPDATE {schema}.runner SET idle = true").await;
    }
}

/// Transactions of callers that insert a batch each, in opposed orders.
#[support::test(slow_to_see_deadlocks(4))]
async fn r10_transactions_with_new_jobs_in_opposed_orders_never_deadlock(database: Database) {
    const ROUNDS: i64 = 20;
    for round in 0..ROUNDS {
        let insert = |writer| {
            let client = database.client.clone();
            let mut jobs: Vec<_> = (0..40).map(|n| unique(&format!("{round} {n}"))).collect();
            if writer % 2 == 1 {
                jobs.reverse();
            }
            async move {
                let mut tx = client.pool().begin().await.unwrap();
                client.insert_many(jobs).tx(&mut tx).await.unwrap();
                tx.commit().await.unwrap();
            }
        };
        timeout(WAIT, together((0..4).map(insert))).await.expect("no deadlock");
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, ROUNDS * 40);
}

#[support::test]
async fn new_jobs_that_differ_in_everything_are_stored_as_they_are_answered(database: Database, client: &Client) {
    let differing = (0..200_u16).map(|n| {
        let key = UniqueKey::raw(format!("k{n}"));
        let key = match n % 4 {
            0 => key.scope(UniqueScope::Active),
            1 => key.states(JobState::Available),
            2 => key.until_start(),
            _ => key.scope(UniqueScope::Exists).on_reentry(OnReentry::Discard),
        };
        let new = job(["a", "b"][usize::from(n % 2)]).queue(["q", "r", "s"][usize::from(n % 3)]).max_attempts(n + 1);
        let new = new.priority(i16::try_from(n % 7).unwrap()).meta("n", n % 5);
        if n % 11 == 0 { new } else { new.unique_key(key) }
    });
    let inserting = client.insert_many(differing).into_future();
    let (answers, statements) = counting_statements(inserting).await;
    assert_eq!(statements, 1);
    for answer in answers.unwrap() {
        let stored = client.job(answer.id()).await.unwrap().unwrap();
        assert_eq!(serde_json::to_value(&stored).unwrap(), serde_json::to_value(&answer.job).unwrap());
    }
}

#[tokio::test]
async fn r10_large_batches_of_new_jobs_take_keys_in_one_order() {
    for (rows, bytes, is_in_key_order) in [(20, 1, 19), (2_001, 1, 2_000), (200, 21_000, 199)] {
        let database = Database::new().await;
        let keyed = |name: &str, n: usize, bytes: usize| {
            let args = serde_json::json!({ "text": "x".repeat(bytes) });
            let key = UniqueKey::raw(format!("{name} {n:05}")).scope(UniqueScope::Active);
            NewJob::new("a", &args).unique_key(key)
        };
        database.client.insert_many((0..rows).rev().map(|n| keyed("b", n, bytes))).await.unwrap();
        let rising = "SELECT count(*) FROM (
            SELECT unique_key > lag(unique_key) OVER (ORDER BY ctid) AS is_more FROM {schema}.job WHERE unique_key LIKE 'b %'
        ) AS j WHERE is_more";
        assert_eq!(database.number(rising).await, is_in_key_order, "{rows} rows of {bytes} bytes");
    }
}
