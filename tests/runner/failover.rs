//! Failover: a runner leaves a server that has become read-only for another one.

use std::time::Duration;

use uniqueue::{JobState, RunnerHandle, RunningJob};

use super::line::named;
use super::{Task, quick, until};
use support::{Database, eventually};

/// A runner whose connections have been used, for results as for promotions.
async fn started(database: &Database) -> RunnerHandle {
    let client = named(database).await;
    let runner = quick(&client).worker(async |_: RunningJob<Task>| {}).start().await.unwrap();
    for _ in 0..20 {
        let job = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(1)).await.unwrap();
        until(database, job.id(), JobState::Completed).await;
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
    let row = until(&database, job.id(), JobState::Completed).await;
    assert_eq!((row.attempt, row.worker), (1, Some(runner.id())));
    runner.stop().await.unwrap();
}

#[support::test]
async fn maintenance_goes_on_over_another_connection_when_the_old_one_takes_no_writes(database: Database) {
    let runner = started(&database).await;
    demote(&database, "-- Makes%").await;
    let job = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(50)).await.unwrap();
    until(&database, job.id(), JobState::Completed).await;
    runner.stop().await.unwrap();
}
