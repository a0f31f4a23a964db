//! A stop while connections are silent.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;
use uniqueue::{Runner, RunningJob};

use super::{Cell, LEASE, Task};
use support::WAIT;

#[tokio::test]
async fn a_stop_gives_jobs_back_over_new_connections_where_the_open_ones_are_silent() {
    let cell = Cell::new().await;
    let begun = Arc::new(Semaphore::new(0));
    let signal = Arc::clone(&begun);
    let work = move |_: RunningJob<Task>| {
        signal.add_permits(1);
        std::future::pending::<()>()
    };
    let runner = Runner::new(cell.client.clone()).queue("default", 5).lease(LEASE).worker(work).start().await.unwrap();
    cell.insert(5).await;
    drop(tokio::time::timeout(WAIT, begun.acquire_many(5)).await.unwrap().unwrap());
    assert!(cell.proxy.freeze() > 0);
    let began = Instant::now();
    tokio::time::timeout(2 * WAIT, runner.stop_within(std::time::Duration::ZERO)).await.unwrap().unwrap();
    let took = began.elapsed();
    let given_back = "SELECT count(*) FROM {schema}.job WHERE state = 'available' AND attempt = 0";
    assert_eq!(cell.database.number(given_back).await, 5, "{}", cell.database.text(super::STATES).await);
    assert_eq!(cell.database.number("SELECT count(*) FROM {schema}.runner").await, 0);
    assert!(took < LEASE, "{took:?}");
}
