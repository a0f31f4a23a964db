//! Queries about results that the database does not answer delay other results only for a moment.

use sqlx::{Postgres, Transaction};
use tokio::task::JoinHandle;

use super::completed_in::end;
use support::prelude::*;

/// The server ends what takes nearly so long.
const LEASE: Duration = Duration::from_secs(12);

/// The recording of results waits for the transaction that has this lock, whatever its lock_timeout is.
const GATE: &str = "CREATE FUNCTION {schema}.gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        WHILE NOT pg_try_advisory_xact_lock_shared(hashtext('{schema}')) LOOP PERFORM pg_sleep(0.002); END LOOP;
        RETURN NULL; END $$;
    CREATE TRIGGER gate BEFORE UPDATE OR DELETE ON {schema}.job FOR EACH STATEMENT EXECUTE FUNCTION {schema}.gate()";

async fn until_waiting(database: &Database, locks: &str) {
    // Of this test's database: the statements of other tests wait as well.
    let waiting = format!(
        "SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
         WHERE NOT l.granted AND a.datname = current_database() AND a.pid <> pg_backend_pid() AND {locks}"
    );
    eventually!(database.number(&waiting).await > 0, "no session waits: {locks}");
}

/// Lets the result of the one job that runs come to the database, where it waits until this is over.
async fn hold_up(database: &Database, go_on: &Notify) -> Transaction<'static, Postgres> {
    let gate = database.begin("SELECT pg_advisory_xact_lock(hashtext('{schema}'))").await;
    go_on.notify_one();
    // A result that has more to say than that the job is completed has a statement of its own.
    let at_gate = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()
        AND (query LIKE '%Completes runs%' OR query LIKE '%Ends runs%')";
    eventually!(database.number(at_gate).await > 0, "no result waits at the gate");
    gate
}

/// The same, and has the next question after it wait for the table.
async fn hang_after(database: &Database, go_on: &Notify) -> JoinHandle<Transaction<'static, Postgres>> {
    let gate = hold_up(database, go_on).await;
    let (pool, lock) = (database.pool().clone(), database.sql("LOCK TABLE {schema}.job IN ACCESS EXCLUSIVE MODE"));
    let locking = tokio::spawn(async move {
        let mut table = pool.begin().await.unwrap();
        sqlx::raw_sql(lock).execute(&mut *table).await.unwrap();
        table
    });
    until_waiting(database, "l.relation = '{schema}.job'::regclass AND l.mode = 'AccessExclusiveLock'").await;
    gate.rollback().await.unwrap();
    locking
}

/// A runner with a job that has begun, and ends when it may.
async fn start(database: &Database, runner: Runner, is_completed_in: bool) -> (Arc<Notify>, JobId) {
    sqlx::raw_sql(database.sql(GATE)).execute(database.pool()).await.unwrap();
    let (begun, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let signals = (Arc::clone(&begun), Arc::clone(&go_on));
    let work = move |job: RunningJob<Task>| {
        let (begun, go_on) = signals.clone();
        async move {
            if is_completed_in {
                let mut tx = job.client().pool().begin().await?;
                job.complete_in(&mut tx).await?;
                tx.commit().await?;
            }
            begun.add_permits(1);
            go_on.notified().await;
            Ok::<_, BoxError>(())
        }
    };
    database.start(runner.queue("default", 10).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, begun.acquire()).await.unwrap().unwrap().forget();
    (go_on, job.id())
}

#[support::test]
async fn what_a_worker_completed_is_told_also_while_nobody_says_so(database: Database) {
    let mut events = database.client.events();
    let (go_on, job) = start(&database, database.runner().lease(LEASE), true).await;
    let table = hang_after(&database, &go_on).await.await.unwrap();
    let began = Instant::now();
    assert_eq!(end(&mut events, job).await, Happened::Completed);
    assert!(began.elapsed() < LEASE / 2, "{:?}", began.elapsed());
    table.rollback().await.unwrap();
}

#[support::test]
async fn a_lost_lease_ends_the_question_which_jobs_are_locked(database: Database) {
    let mut events = database.client.events();
    let (go_on, job) = start(&database, database.runner().lease(LEASE), false).await;
    let row = database.begin(&format!("SELECT FROM {{schema}}.job WHERE id = '{job}' FOR UPDATE")).await;
    let locking = hang_after(&database, &go_on).await;
    let question = "l.relation = '{schema}.job'::regclass AND a.query LIKE '%another transaction has locked%'";
    until_waiting(&database, question).await;
    let began = Instant::now();
    database.end_leases().await;
    assert_eq!(end(&mut events, job).await, Happened::Stale);
    assert!(began.elapsed() < LEASE / 2, "{:?}", began.elapsed());
    row.rollback().await.unwrap();
    locking.await.unwrap().rollback().await.unwrap();
}

#[support::test]
async fn a_completion_whose_answer_was_lost_is_told_as_completed(database: Database) {
    let proxy = Proxy::before(&database.url).await;
    for retention in [Retention::default(), Retention::default().completed(Duration::ZERO)] {
        let client = database.client_at(&proxy.url(), 1).await;
        let mut events = client.events();
        let runner = Runner::new(client).lease(Duration::from_secs(4)).retention(retention);
        let (go_on, job) = start(&database, runner, false).await;
        let gate = hold_up(&database, &go_on).await;
        proxy.freeze();
        gate.rollback().await.unwrap();
        assert_eq!(end(&mut events, job).await, Happened::Completed);
        database.end().await;
        database.execute("DROP FUNCTION {schema}.gate CASCADE").await;
    }
}
