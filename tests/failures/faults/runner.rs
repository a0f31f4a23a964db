//! The runner's own connections: fetch, results, heartbeat and listener, maintenance.

use super::{Cell, LEASE, each, struck};
use support::prelude::*;

const FETCH: &str = "Takes the next jobs of several queues";
const RESULTS: &str = "Completes runs that have nothing to store";
const HEARTBEAT: &str = "Extends a runner's lease";
const MAINTENANCE: &str = "Runs the service $1 once";

/// As docs/operate/operations.md says for each class, with time for a busy machine.
fn felt_at_most(fault: Fault, silence: Duration) -> Duration {
    match fault {
        Fault::Frozen | Fault::FrozenOneWay => silence + LEASE / 3,
        Fault::Cut | Fault::Reset | Fault::HalfClosed => LEASE / 2,
        // The page promises no time: each answer takes 0.3 s, and a run of a service asks often.
        Fault::Slow => 2 * LEASE,
    }
}

#[tokio::test]
async fn a_fetch_survives_every_fault_of_its_connection() {
    each(|fault| async move {
        let cell = Cell::new().await;
        let runner = cell.runner().start().await.unwrap();
        let id = runner.id();
        // A fetch that finds jobs, and those of the jobs that the fetch took and whose answer was lost.
        cell.insert(1).await;
        cell.completed(1).await;
        let strike = cell.proxy.strike(FETCH, fault);
        cell.insert(20).await;
        struck(strike).await;
        let began = Instant::now();
        cell.completed(21).await;
        let took = began.elapsed();
        assert!(took < felt_at_most(fault, LEASE / 2), "{fault:?}: {took:?}");
        assert_eq!(cell.runs(), 21, "{fault:?}");
        assert_eq!(cell.database.number("SELECT count(*) FROM {schema}.job WHERE attempt <> 1").await, 0, "{fault:?}");
        assert_eq!(runner.id(), id, "{fault:?}: the lease was lost");
        runner.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn results_survive_every_fault_of_their_connection() {
    each(|fault| async move {
        let cell = Cell::new().await;
        let runner = cell.runner().start().await.unwrap();
        let id = runner.id();
        let strike = cell.proxy.strike(RESULTS, fault);
        cell.insert(20).await;
        struck(strike).await;
        let began = Instant::now();
        cell.completed(20).await;
        let took = began.elapsed();
        assert!(took < felt_at_most(fault, LEASE / 2), "{fault:?}: {took:?}");
        assert_eq!(cell.runs(), 20, "{fault:?}: a job ran twice");
        assert_eq!(runner.id(), id, "{fault:?}: the lease was lost");
        runner.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_heartbeat_and_the_listener_survive_every_fault_of_their_connection() {
    each(|fault| async move {
        let cell = Cell::new().await;
        // Only a notification leads to a job in time.
        let runner = cell.runner().poll_interval(HOUR).start().await.unwrap();
        let id = runner.id();
        struck(cell.proxy.strike(HEARTBEAT, fault)).await;
        let began = Instant::now();
        let least_left = async {
            let left = "SELECT extract(epoch FROM min(leased_until) - now())::bigint FROM {schema}.runner";
            while began.elapsed() < LEASE {
                assert!(cell.database.number(left).await >= 0, "{fault:?}: the lease ran out");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        least_left.await;
        assert_eq!(runner.id(), id, "{fault:?}: the lease was lost");
        let began = Instant::now();
        cell.insert(1).await;
        cell.completed(1).await;
        assert!(began.elapsed() < WAIT, "{fault:?}: the runner is deaf");
        assert_eq!(cell.runs(), 1, "{fault:?}");
        runner.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn maintenance_survives_every_fault_of_its_connection() {
    each(|fault| async move {
        let cell = Cell::new().await;
        let runner = cell.runner().start().await.unwrap();
        let strike = cell.proxy.strike(MAINTENANCE, fault);
        let due = (0..5).map(|n| NewJob::from(super::Task { n }).scheduled_in(Duration::from_millis(100)));
        cell.database.client.insert_many(due).await.unwrap();
        struck(strike).await;
        let began = Instant::now();
        cell.completed(5).await;
        let took = began.elapsed();
        assert!(took < felt_at_most(fault, Duration::from_secs(10)), "{fault:?}: {took:?}");
        assert_eq!(cell.runs(), 5, "{fault:?}");
        runner.stop().await.unwrap();
    })
    .await;
}

#[support::test]
async fn a_stop_gives_jobs_back_over_new_connections_where_the_open_ones_are_silent(cell: Cell) {
    let begun = Arc::new(Semaphore::new(0));
    let signal = Arc::clone(&begun);
    let work = move |_: RunningJob<Task>| {
        signal.add_permits(1);
        std::future::pending::<()>()
    };
    let runner = Runner::new(cell.client.clone()).queue("default", 5).lease(LEASE).worker(work).start().await.unwrap();
    cell.insert(5).await;
    drop(timeout(WAIT, begun.acquire_many(5)).await.unwrap().unwrap());
    assert!(cell.proxy.freeze() > 0);
    let began = Instant::now();
    timeout(2 * WAIT, runner.stop_within(std::time::Duration::ZERO)).await.unwrap().unwrap();
    let took = began.elapsed();
    let given_back = "SELECT count(*) FROM {schema}.job WHERE state = 'available' AND attempt = 0";
    assert_eq!(cell.database.number(given_back).await, 5, "{}", cell.database.text(super::STATES).await);
    assert_eq!(cell.database.number("SELECT count(*) FROM {schema}.runner").await, 0);
    assert!(took < LEASE, "{took:?}");
}
