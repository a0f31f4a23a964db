//! R19: waiting for the result of a job.

use uniqueue::{Keep, Waited};

use support::prelude::*;

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "double")]
struct Double {
    n: u64,
}

fn job(n: u64) -> NewJob {
    NewJob::from(Double { n }).max_attempts(1)
}

/// A runner that doubles numbers. It cannot double zero.
fn doubling(client: &Client) -> Runner {
    quick(client).worker(|job: RunningJob<Double>| async move {
        match job.args.n {
            0 => Err(BoxError::from("nothing to double")),
            n => Ok(Outcome::complete_with(2 * n)?),
        }
    })
}

#[support::test]
async fn wait_answers_with_the_final_row_and_its_typed_output(database: Database) {
    database.start(doubling(&database.client)).await;
    let (inserted, waited) = database.client.insert(job(21)).wait(WAIT).await.unwrap();
    assert_eq!(waited.job().unwrap().id, inserted.id());
    assert_eq!(waited.job().unwrap().state, JobState::Completed);
    assert_eq!(waited.output::<u64>().unwrap(), Some(42));
    assert!(matches!(waited.output::<String>(), Err(Error::InvalidJson { what: "output", .. })));
    // It is final already.
    let again = database.client.wait(inserted.id()).await.unwrap();
    assert_eq!(again.output::<u64>().unwrap(), Some(42));

    let (_, failed) = database.client.insert(job(0)).wait(WAIT).await.unwrap();
    assert_eq!(failed.job().unwrap().state, JobState::Discarded);
    assert_eq!(failed.output::<u64>().unwrap(), None);
}

#[support::test]
async fn wait_sees_the_work_of_another_process(database: Database) {
    // A client of its own, so that no event tells of the end.
    let other = database.client_over(database.another_pool(5).await);
    database.start(doubling(&other)).await;
    let (_, waited) = database.client.insert(job(4)).wait(WAIT).await.unwrap();
    assert_eq!(waited.output::<u64>().unwrap(), Some(8));
}

#[support::test]
async fn waits_of_a_client_share_one_statement(database: Database) {
    let jobs = database.client.insert_many((1..=50).map(|n| job(n).pending())).await.unwrap();
    let waits: Vec<_> = jobs
        .iter()
        .map(|inserted| {
            let (client, id) = (database.client.clone(), inserted.id());
            tokio::spawn(async move { client.wait(id).timeout(WAIT).await.unwrap() })
        })
        .collect();
    // Each looked at its job once, and all are registered: no statement but the shared one is sent from now on.
    let looked =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%waited_for%' AND datname = current_database()";
    eventually!(database.number(looked).await > 0);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let ((), statements) = statements_of(async {
        for inserted in &jobs {
            database.client.cancel(inserted.id()).await.unwrap();
        }
        for wait in waits {
            assert_eq!(wait.await.unwrap().job().unwrap().state, JobState::Cancelled);
        }
    })
    .await;
    let shared = statements.iter().filter(|statement| statement.contains("waited_for")).count();
    assert!((1..=60).contains(&shared), "{shared} statements for 50 waits: each cancellation wakes one at most");
}

#[support::test]
async fn duplicate_waits_for_the_holder_that_the_insert_met(database: Database) {
    let first = database.client.insert(job(5).unique_key(UniqueKey::raw("k"))).await.unwrap();
    let client = database.client.clone();
    let wait =
        tokio::spawn(async move { client.insert(job(6).unique_key(UniqueKey::raw("k"))).wait(WAIT).await.unwrap() });
    database.start(doubling(&database.client)).await;
    let (inserted, waited) = wait.await.unwrap();
    assert_eq!(waited.output::<u64>().unwrap(), Some(if inserted.duplicate { 10 } else { 12 }));
    assert!(inserted.duplicate && inserted.id() == first.id(), "the holder waits until the runner starts");
}

#[support::test]
async fn replaced_job_answers_cancelled_and_names_its_successor(database: Database) {
    let policy = UniquePolicy::new().on_conflict(OnConflict::Replace);
    let first = database.client.insert(job(1).unique(policy.clone()).scheduled_in(WAIT)).await.unwrap();
    let (client, id) = (database.client.clone(), first.id());
    let wait = tokio::spawn(async move { client.wait(id).timeout(WAIT).await.unwrap() });
    let second = database.client.insert(job(1).unique(policy)).await.unwrap();
    assert_eq!(second.replaced, Some(first.id()));
    let waited = wait.await.unwrap();
    let row = waited.job().unwrap();
    assert_eq!((row.state, row.replaced_by), (JobState::Cancelled, Some(second.id())));
}

#[support::test]
async fn job_that_is_deleted_is_gone_and_its_outcome_unknown(database: Database) {
    let never = JobId::from(Uuid::now_v7());
    assert!(matches!(database.client.wait(never).await.unwrap(), Waited::Gone));
    let inserted = database.client.insert(job(1)).await.unwrap();
    let (client, id) = (database.client.clone(), inserted.id());
    let wait = tokio::spawn(async move { client.wait(id).timeout(WAIT).await.unwrap() });
    database.client.delete(inserted.id()).await.unwrap();
    assert!(matches!(wait.await.unwrap(), Waited::Gone));
}

#[support::test]
async fn wait_ends_at_its_timeout_and_the_job_goes_on(database: Database) {
    let (inserted, waited) = database.client.insert(job(1)).wait(Duration::from_millis(30)).await.unwrap();
    assert!(matches!(waited, Waited::TimedOut) && waited.job().is_none());
    assert_eq!(database.client.job(inserted.id()).await.unwrap().unwrap().state, JobState::Available);
}

#[support::test]
async fn wait_is_an_error_at_once_where_completed_jobs_are_not_kept(database: Database) {
    database.client.queue("default").set(QueueChanges::new().keep_completed(Keep::For(Duration::ZERO))).await.unwrap();
    let refused = database.client.insert(job(1)).wait(WAIT).await;
    assert!(matches!(refused, Err(Error::ResultsNotKept { queue }) if queue == "default"));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0, "nothing is inserted");
    let inserted = database.client.insert(job(1)).await.unwrap();
    assert!(matches!(database.client.wait(inserted.id()).await, Err(Error::ResultsNotKept { .. })));

    // The queue keeps them again, and its runner does not matter.
    database.client.queue("default").set(QueueChanges::new().keep_completed(Keep::Forever)).await.unwrap();
    let runner = doubling(&database.client).retention(Retention::forever().completed(Duration::ZERO));
    let runner = runner.start().await.unwrap();
    let (_, waited) = database.client.insert(job(2)).wait(WAIT).await.unwrap();
    assert_eq!(waited.output::<u64>().unwrap(), Some(4));
    // The queue says nothing, and its runner does not keep them.
    database.client.queue("default").set(QueueChanges::new().keep_completed(Keep::AsRunnersSay)).await.unwrap();
    let refused = database.client.insert(job(1)).wait(WAIT).await;
    assert!(matches!(refused, Err(Error::ResultsNotKept { .. })));
    runner.stop().await.unwrap();
}

#[support::test]
async fn wait_is_not_offered_within_the_caller_s_transaction(database: Database) {
    let mut tx = database.pool().begin().await.unwrap();
    let refused = database.client.insert(job(1)).tx(&mut tx).wait(WAIT).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.starts_with("invalid wait: cannot be combined with tx"), "{error}");
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[test]
fn wait_survives_the_shutdown_of_the_runtime_that_asked_first() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let database = first.block_on(Database::new());
    let (client, id) = first.block_on(async {
        // A pool's connections belong to the runtime that opened them, so each runtime of this test asks over new ones.
        let options = database.pool().connect_options().as_ref().clone();
        let pool = PgPoolOptions::new().max_lifetime(Duration::ZERO).connect_lazy_with(options);
        let inserted = database.client.insert(job(1)).await.unwrap();
        (database.client_over(pool), inserted.id())
    });
    let of_first = client.clone();
    first.spawn(async move { of_first.wait(id).await });
    let of_second = client.clone();
    let wait = second.spawn(async move { of_second.wait(id).timeout(WAIT).await.unwrap() });
    second.block_on(async { tokio::time::sleep(Duration::from_millis(200)).await });
    first.shutdown_background();
    second.block_on(async {
        client.cancel(id).await.unwrap();
        assert_eq!(wait.await.unwrap().job().unwrap().state, JobState::Cancelled);
    });
}
