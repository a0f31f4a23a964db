//! R12: with `run_again`, a run begins after the insert's transaction commits.

use std::sync::atomic::AtomicI64;

use support::prelude::*;

fn covering(on_conflict: OnConflict) -> NewJob {
    NewJob::from(Task { n: 1 }).unique_key(UniqueKey::raw("k").on_conflict(on_conflict))
}

/// Lets no holder be due for long, however slow the test is.
const YOUNG: &str = "UPDATE {schema}.job SET scheduled_at = now() + interval '1 hour'";

/// How many jobs a fetch could take.
const FREE: &str = "SELECT count(*) FROM (
    SELECT FROM {schema}.job WHERE state = 'available' FOR NO KEY UPDATE SKIP LOCKED) AS j";

#[support::test]
async fn r12_a_covered_holder_starts_after_the_commit(database: Database, client: &Client) {
    let holder = client.insert(covering(OnConflict::RunAgain)).await.unwrap();
    assert!(!holder.duplicate && !holder.covered);
    database.execute(YOUNG).await;
    for commits in [true, false] {
        let mut tx = database.pool().begin().await.unwrap();
        let answer = client.insert(covering(OnConflict::RunAgain)).tx(&mut tx).await.unwrap();
        assert!(answer.duplicate && answer.covered && !answer.updated);
        assert_eq!(answer.id(), holder.id());
        assert_eq!(database.number(FREE).await, 0, "no runner starts it meanwhile");
        // Another caller is not held up, and neither is a duplicate that only looks.
        let other = client.insert(covering(OnConflict::RunAgain)).await.unwrap();
        assert!(other.covered && client.insert(covering(OnConflict::Ignore)).await.unwrap().duplicate);
        support::end(tx, commits).await;
        assert_eq!(database.number(FREE).await, 1);
    }
}

#[support::test]
async fn r12_r13_a_holder_that_starts_meanwhile_is_neither_covered_nor_changed(database: Database, client: &Client) {
    for on_conflict in [OnConflict::RunAgain, OnConflict::Update] {
        database.execute("DELETE FROM {schema}.job").await;
        let holder = client.insert(covering(on_conflict)).await.unwrap();
        database.execute(YOUNG).await;
        let fetch = database.begin("UPDATE {schema}.job SET state = 'running', worker = gen_random_uuid()").await;
        let bounded = client.insert(covering(on_conflict)).max_wait(Duration::from_millis(20)).await;
        assert!(matches!(bounded, Err(Error::Busy { .. })), "{bounded:?}");
        let waiting = inserting(client, covering(on_conflict));
        database.until_inserts_wait(1).await;
        fetch.commit().await.unwrap();
        let answer = timeout(WAIT, waiting).await.unwrap().unwrap().unwrap();
        assert!(!answer.duplicate && !answer.covered && answer.id() != holder.id(), "{on_conflict}");
        assert!(answer.job.claims);
        assert_eq!(client.job(holder.id()).await.unwrap().unwrap().updates, 0);
    }
}

/// Callers change rows, each its own so often, and insert in the same transaction, while a runner reads the rows. Answers
/// whether the runner read the last change of each.
async fn are_all_read(database: &Database, on_conflict: OnConflict, each: i64) -> bool {
    let callers = 6;
    let client = &database.client;
    database.execute("DROP TABLE IF EXISTS {schema}.changed").await;
    database.execute("CREATE TABLE {schema}.changed (caller bigint, version bigint NOT NULL)").await;
    // A row for each caller: with one row for all, callers that lock it before the key and after it would deadlock.
    database
        .execute(&format!("INSERT INTO {{schema}}.changed SELECT n, 0 FROM generate_series(1, {callers}) AS n"))
        .await;
    let read: Arc<Vec<AtomicI64>> = Arc::new((0..callers).map(|_| AtomicI64::new(0)).collect());
    let version = database.sql("SELECT version FROM {schema}.changed ORDER BY caller");
    let work = {
        let (read, version) = (Arc::clone(&read), version.clone());
        move |task: RunningJob<Task>| {
            let (read, version) = (Arc::clone(&read), version.clone());
            async move {
                let seen = sqlx::query(version).fetch_all(task.client().pool()).await?;
                for (read, seen) in read.iter().zip(seen) {
                    read.fetch_max(seen.get(0), Ordering::SeqCst);
                }
                Ok::<_, BoxError>(())
            }
        }
    };
    let runner = quick(client).worker(work).start().await.unwrap();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let client = client.clone();
        let insert_first = caller % 2 == 0;
        let change = format!("UPDATE {{schema}}.changed SET version = version + 1 WHERE caller = {caller} + 1");
        let change = database.sql(&change);
        tasks.spawn(async move {
            for _ in 0..each {
                let mut tx = client.pool().begin().await.unwrap();
                if insert_first {
                    client.insert(covering(on_conflict)).tx(&mut tx).await.unwrap();
                }
                sqlx::query(change.clone()).execute(&mut *tx).await.unwrap();
                if !insert_first {
                    client.insert(covering(on_conflict)).tx(&mut tx).await.unwrap();
                }
                // Time for a run between the insert and the commit.
                tokio::time::sleep(Duration::from_millis(1)).await;
                tx.commit().await.unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    // Every job that was inserted or covered runs to its end. Then no change may be left that no run read.
    database.until("SELECT count(*) FROM {schema}.job WHERE state <> 'completed'", 0).await;
    runner.stop().await.unwrap();
    read.iter().all(|read| read.load(Ordering::SeqCst) == each)
}

#[support::test(with_connections(16))]
async fn r12_no_committed_change_is_left_unworked_under_many_callers(database: Database) {
    assert!(are_all_read(&database, OnConflict::RunAgain, soak(25, 400)).await);
    for _ in 0..20 {
        assert!(are_all_read(&database, OnConflict::RunAgain, 3).await);
    }
}

#[support::test(with_connections(16))]
async fn r12_with_ignore_the_same_callers_lose_a_change(database: Database) {
    for _ in 0..100 {
        if !are_all_read(&database, OnConflict::Ignore, 3).await {
            return;
        }
    }
    panic!("the test sees no hole");
}

#[support::test]
async fn r12_overlapping_callers_do_not_keep_a_due_holder_from_its_run(database: Database, client: &Client) {
    let holder = client.insert(covering(OnConflict::RunAgain)).await.unwrap();
    database.pass(Duration::from_secs(2)).await;
    let mut before = database.pool().begin().await.unwrap();
    let first = client.insert(covering(OnConflict::RunAgain)).tx(&mut before).await.unwrap();
    assert!(first.covered, "no other transaction has it");
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut tx = database.pool().begin().await.unwrap();
        let own = client.insert(covering(OnConflict::RunAgain)).tx(&mut tx).await.unwrap();
        assert!(!own.duplicate && !own.covered && !own.job.claims && own.job.state == JobState::Available);
        others.push(tx);
    }
    before.commit().await.unwrap();
    assert_eq!(database.number(FREE).await, 1, "the holder, though the others are open");
    for tx in others {
        tx.commit().await.unwrap();
    }
    assert_eq!(database.number(FREE).await, 4);
    assert_eq!(client.holder("k").await.unwrap().unwrap().id, holder.id());
}

#[support::test]
async fn r12_a_backlog_does_not_make_jobs_out_of_covered_inserts(database: Database, client: &Client) {
    client.insert(covering(OnConflict::RunAgain)).await.unwrap();
    database.pass(MINUTE).await;
    for _ in 0..3 {
        let mut tx = database.pool().begin().await.unwrap();
        assert!(client.insert(covering(OnConflict::RunAgain)).tx(&mut tx).await.unwrap().covered);
        tx.commit().await.unwrap();
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
}

/// Two batches cover a key and then change its holder: the second waits for the first before it has a lock of its own.
#[tokio::test]
async fn r12_batches_that_mix_run_again_with_a_change_of_one_key_do_not_deadlock() {
    for change in [OnConflict::Update, OnConflict::Replace, OnConflict::Preempt] {
        let database = Database::new().await;
        let client = &database.client;
        client.insert(covering(OnConflict::RunAgain)).await.unwrap();
        database.execute(YOUNG).await;
        let mut open = database.pool().begin().await.unwrap();
        assert!(client.insert(covering(OnConflict::RunAgain)).tx(&mut open).await.unwrap().covered);
        let batches: Vec<_> = (0..2)
            .map(|_| {
                let client = client.clone();
                let batch = [covering(OnConflict::RunAgain), covering(change)];
                tokio::spawn(async move { client.insert_many(batch).await })
            })
            .collect();
        database.until_inserts_wait(2).await;
        open.commit().await.unwrap();
        for batch in batches {
            timeout(WAIT, batch).await.unwrap().unwrap().unwrap();
        }
    }
}

#[support::test]
async fn r12_a_covered_holder_wakes_runners_at_the_commit(database: Database, client: &Client) {
    client.insert(covering(OnConflict::RunAgain)).await.unwrap();
    let mut listener = database.listen(&["job"]).await;
    database.idle_runner("default").await;
    for on_conflict in [OnConflict::RunAgain, OnConflict::Update] {
        database.execute(YOUNG).await;
        let policy = format!(r#"{{"key": "k", "scope": "queued", "on_conflict": "{}"}}"#, on_conflict.as_str());
        let one = format!(
            "SELECT count(*) FROM {{schema}}.insert_job('{}', '{{\"n\": 1}}', unique_policy => '{policy}')",
            covering(on_conflict).kind()
        );
        let mut tx = database.pool().begin().await.unwrap();
        client.insert(covering(on_conflict)).tx(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        let heard = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
        assert_eq!(heard.payload(), "default");
        assert_eq!(database.number(&one).await, 1);
        let heard = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
        assert_eq!(heard.payload(), "default");
    }
    // A duplicate that only looks locks nothing, so it wakes no runner.
    client.insert(covering(OnConflict::Ignore)).await.unwrap();
    client.insert(job("a")).await.unwrap();
    timeout(WAIT, listener.recv()).await.unwrap().unwrap();
    assert!(timeout(Duration::from_millis(50), listener.recv()).await.is_err());
}

#[support::test]
async fn r12_a_batch_covers_like_a_single_insert(database: Database) {
    let batch = [covering(OnConflict::RunAgain), job("plain"), covering(OnConflict::RunAgain)];
    let answers = database.client.insert_many(batch).await.unwrap();
    assert_eq!(answers.iter().map(|answer| answer.covered).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(answers[2].id(), answers[0].id());
}
