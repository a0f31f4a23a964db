//! Recovery of lost answers: a fetch that failed may have started jobs. The runner gives them back soon, also while it
//! stops. A stop does not wait for that without a limit.
//! A runner leaves a server that has become read-only for another one.

use sqlx::{Postgres, Transaction};

use super::line::named;
use support::prelude::*;

/// The fetches that wait for the table of queues.
const HANGING: &str = "FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
    WHERE l.relation = '{schema}.queue'::regclass AND NOT l.granted AND a.datname = current_database()
        AND a.query LIKE '%next jobs of%'";

/// A runner with one slot, whose jobs never end by themselves.
fn endless(database: &Database) -> Runner {
    let runner = database.runner().queue("default", 1).poll_interval(Duration::from_millis(10));
    runner.stop_timeout(Duration::ZERO).worker(|_: RunningJob<Task>| std::future::pending::<()>())
}

/// Waits until a fetch hangs, for as long as this transaction is open.
async fn hang(database: &Database) -> Transaction<'static, Postgres> {
    let lock = database.begin("LOCK TABLE {schema}.queue IN ACCESS EXCLUSIVE MODE").await;
    eventually!(database.number(&format!("SELECT count(*) {HANGING}")).await > 0, "no fetch hangs");
    lock
}

/// Breaks the connection of the fetch that hangs.
async fn break_off(database: &Database) {
    assert!(database.number(&format!("SELECT count(pg_terminate_backend(pid)) {HANGING}")).await > 0);
}

/// A job that a fetch took, of which the runner does not know.
async fn lost(database: &Database, runner: Uuid) -> JobId {
    let job = database.client.insert(Task { n: 1 }).scheduled_in(HOUR).await.unwrap().id();
    let running = format!("state = 'running', worker = '{runner}', attempt = 1");
    assert_eq!(database.execute(&format!("UPDATE {{schema}}.job SET {running} WHERE id = '{job}'")).await, 1);
    job
}

#[support::test]
async fn what_a_lost_fetch_took_is_given_back_also_while_every_slot_is_taken(database: Database) {
    let runner = database.start(endless(&database)).await;
    let lock = hang(&database).await;
    break_off(&database).await;
    let endless = database.client.insert(Task { n: 2 }).await.unwrap();
    lock.rollback().await.unwrap();
    database.until_state(endless.id(), JobState::Running).await;
    // The fetch comes to pass only now.
    let lost = lost(&database, runner).await;
    let row = database.until_state(lost, JobState::Available).await;
    assert_eq!((row.attempt, row.errors.len()), (0, 0));
    assert_eq!(database.row(endless.id()).await.state, JobState::Running);
}

#[support::test]
async fn nothing_is_fetched_before_lost_jobs_could_be_looked_for(database: Database) {
    database.execute("CREATE SEQUENCE {schema}.refusals").await;
    let refuse = "RAISE EXCEPTION 'not yet, %', nextval('{schema}.refusals');";
    database.trigger("BEFORE UPDATE", "OLD.state = 'running' AND NEW.state = 'available'", refuse).await;
    let runner = database.start(endless(&database)).await;
    let lock = hang(&database).await;
    let lost = lost(&database, runner).await;
    break_off(&database).await;
    let endless = database.client.insert(Task { n: 2 }).await.unwrap();
    lock.rollback().await.unwrap();
    // A sequence keeps its numbers when a transaction fails.
    eventually!(database.number("SELECT last_value FROM {schema}.refusals").await > 2, "it is not tried again");
    assert_eq!(database.client.job(endless.id()).await.unwrap().unwrap().state, JobState::Available);
    database.drop_trigger().await;
    database.until_state(endless.id(), JobState::Running).await;
    let row = database.until_state(lost, JobState::Available).await;
    assert_eq!((row.attempt, row.errors.len()), (0, 0));
}

#[support::test]
async fn a_stop_gives_back_what_a_fetch_took_that_failed_meanwhile(database: Database) {
    let runner = endless(&database).start().await.unwrap();
    let lock = hang(&database).await;
    let lost = lost(&database, runner.id()).await;
    let stopping = tokio::spawn(runner.stop());
    // Until the stop has come to the producer.
    tokio::time::sleep(Duration::from_millis(50)).await;
    break_off(&database).await;
    lock.rollback().await.unwrap();
    timeout(WAIT, stopping).await.unwrap().unwrap().unwrap();
    let row = database.client.job(lost).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt, row.errors.len()), (JobState::Available, 0, 0));
}

#[tokio::test]
async fn a_stop_that_the_database_does_not_answer_takes_a_lease_and_a_bit_also_after_a_fetch_that_failed() {
    const LEASE: Duration = Duration::from_secs(4);
    const LOOKING: &str = "FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
        WHERE l.relation = '{schema}.job'::regclass AND NOT l.granted AND a.datname = current_database()
        AND a.query LIKE '%Gives back jobs that the runner%'";
    // In the second case the lease is lost meanwhile.
    for locked in ["{schema}.job", "{schema}.job, {schema}.runner"] {
        let database = Database::new().await;
        let runner = database.runner().queue("default", 1).poll_interval(Duration::from_millis(10));
        let runner = runner.lease(LEASE).worker(at_once).start().await.unwrap();
        let lock = hang(&database).await;
        break_off(&database).await;
        let more = database.begin(&format!("LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE")).await;
        lock.rollback().await.unwrap();
        eventually!(database.number(&format!("SELECT count(*) {LOOKING}")).await > 0, "no fetch looks for lost jobs");
        let began = Instant::now();
        let _ = runner.stop().await;
        assert!(began.elapsed() < LEASE * 7 / 4, "with {locked} locked: {:?}", began.elapsed());
        more.rollback().await.unwrap();
    }
}

/// A runner whose connections have been used, for results as for promotions.
async fn started(database: &Database) -> Uuid {
    let runner = database.start(quick(&named(database).await).worker(at_once)).await;
    for _ in 0..20 {
        let job = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(1)).await.unwrap();
        database.until_state(job.id(), JobState::Completed).await;
    }
    runner
}

/// From now on, what the runner's connections whose last query is `like` this lead to changes no job. Others do.
async fn demote(database: &Database, like: &str) {
    let table = "CREATE TABLE {schema}.old (pid integer);
        CREATE FUNCTION {schema}.standby() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF EXISTS (SELECT FROM {schema}.old WHERE pid = pg_backend_pid()) THEN
                RAISE EXCEPTION 'cannot execute UPDATE in a read-only transaction' USING ERRCODE = '25006';
            END IF;
            RETURN NULL; END $$;
        CREATE TRIGGER standby BEFORE UPDATE ON {schema}.job FOR EACH STATEMENT EXECUTE FUNCTION {schema}.standby()";
    sqlx::raw_sql(database.sql(table)).execute(database.pool()).await.unwrap();
    let old = format!(
        "INSERT INTO {{schema}}.old SELECT pid FROM pg_stat_activity
        WHERE application_name = 'named' AND datname = current_database() AND query LIKE '{like}'"
    );
    eventually!(database.execute(&old).await != 0, "no connection");
}

#[support::test]
async fn a_runner_fetches_and_records_over_other_connections_when_the_old_ones_take_no_writes(database: Database) {
    let runner = started(&database).await;
    demote(&database, "%").await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    let row = database.until_state(job.id(), JobState::Completed).await;
    assert_eq!((row.attempt, row.worker), (1, Some(runner)));
}

#[support::test]
async fn maintenance_goes_on_over_another_connection_when_the_old_one_takes_no_writes(database: Database) {
    started(&database).await;
    demote(&database, "-- Runs the service%").await;
    let job = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(50)).await.unwrap();
    database.until_state(job.id(), JobState::Completed).await;
}
