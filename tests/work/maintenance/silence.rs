//! A silent network on the connection that the services share.

use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use uniqueue::{Client, JobState, Runner, RunningJob};

use super::Task;
use support::proxy::Proxy;
use support::{Database, WAIT, eventually};

#[tokio::test]
async fn a_network_that_falls_silent_in_the_hands_of_the_reindexer_holds_up_the_others_for_seconds_and_not_for_its_day()
{
    let database = Database::new().await;
    let proxy = Proxy::before(&database.url).await;
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(WAIT).connect(&proxy.url()).await.unwrap();
    let client = Client::builder().schema(database.client.schema().clone()).pool(pool);
    // One that waits for the connection, so that no other notices the silence for it.
    let off = "INSERT INTO {schema}.maintenance (service, leased_until)
        SELECT unnest(ARRAY['rescuer', 'pruner', 'periodic']), 'infinity'";
    database.execute(off).await;
    // The reindexer looks all the time, so the silence most probably meets it.
    let runner = Runner::new(client)
        .queue("nobody's", 1)
        .lease(Duration::from_secs(2))
        .reindex_interval(Duration::from_millis(1))
        .worker(|_: RunningJob<Task>| async {});
    let runner = runner.start().await.unwrap();
    let holds =
        "SELECT count(*) FROM {schema}.maintenance WHERE holder IS NOT NULL AND service IN ('promoter', 'reindexer')";
    eventually!(database.number(holds).await == 2, "no runner does it");
    // The promoter has had its first turn then, and rests.
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.freeze();
    let due = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(100)).await.unwrap();
    eventually!(database.client.job(due.id()).await.unwrap().unwrap().state == JobState::Available, "not promoted");
    let _ = tokio::time::timeout(WAIT, runner.stop()).await.unwrap();
}
