//! The leases of services: one runner does a service, another takes over, and two at once do no harm.

use super::{caretaker, holder};
use support::prelude::*;

const SERVICES: [&str; 3] = ["promoter", "pruner", "rescuer"];

#[support::test]
async fn eight_runners_do_maintenance_about_as_often_as_one(database: Database) {
    let quiet = || caretaker(&database).poll_interval(HOUR).lease(HOUR).promote_interval(Duration::from_millis(20));
    let second = || tokio::time::sleep(Duration::from_secs(1));
    database.start(quiet().name("first")).await;
    eventually!(holder(&database, "promoter").await == "first", "no runner takes the services");
    let ((), alone) = counting_statements(second()).await;
    for _ in 0..7 {
        database.start(quiet().name("other")).await;
    }
    // What they say once, when they start.
    second().await;
    let ((), together) = counting_statements(second()).await;
    assert_eq!(holder(&database, "promoter").await, "first");
    assert!(together < 3 * alone, "{together} statements a second of eight, {alone} of one");
}

#[support::test]
async fn a_stop_gives_the_leases_up_and_another_runner_follows(database: Database) {
    let first = caretaker(&database).name("first").start().await.unwrap();
    for service in SERVICES {
        eventually!(holder(&database, service).await == "first", "{service}");
    }
    database.start(caretaker(&database).name("second").queue("default", 1)).await;
    first.stop().await.unwrap();
    for service in SERVICES {
        let left = holder(&database, service).await;
        assert_ne!(left, "first", "{service}");
    }
    eventually!(holder(&database, "promoter").await == "second", "no runner promotes");
    let later = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(50)).await.unwrap();
    database.until_state(later.id(), JobState::Completed).await;
}

#[support::test]
async fn a_service_is_left_to_its_holder_and_taken_over_when_the_lease_ends(database: Database) {
    // A holder that was killed: its lease lasts for a while, and is not extended.
    let dead = "INSERT INTO {schema}.maintenance (service, holder, runner, leased_until)
        VALUES ('promoter', gen_random_uuid(), 'dead', now() + interval '2 s')";
    let job = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(10)).await.unwrap();
    database.execute(dead).await;
    database.start(caretaker(&database).queue("default", 1)).await;
    database.until_state(job.id(), JobState::Completed).await;
    let early = "SELECT count(*) FROM {schema}.job AS j
        WHERE j.attempted_at < j.created_at + interval '2 s'";
    assert_eq!(database.number(early).await, 0, "the lease was another's");
}

#[support::test]
async fn a_service_can_be_switched_off_for_all_runners(database: Database) {
    database.execute("INSERT INTO {schema}.maintenance (service, leased_until) VALUES ('promoter', 'infinity')").await;
    let job = database.client.insert(Task { n: 1 }).scheduled_in(Duration::from_millis(10)).await.unwrap();
    database.start(caretaker(&database).name("r").queue("default", 1)).await;
    eventually!(holder(&database, "rescuer").await == "r", "no runner rescues");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(database.row(job.id()).await.state, JobState::Scheduled);
}

#[support::test]
async fn any_number_of_holders_at_once_do_no_harm(database: Database) {
    const JOBS: u32 = 3_000;
    for _ in 0..4 {
        let runner = database.runner().queue("default", 50).promote_interval(Duration::from_millis(1)).worker(at_once);
        database.start(runner).await;
    }
    let jobs = (0..JOBS).map(|n| NewJob::from(Task { n }).scheduled_in(Duration::from_millis(n.into())));
    database.client.insert_many(jobs).await.unwrap();
    let began = Instant::now();
    while database.number("SELECT count(*) FROM {schema}.job WHERE state <> 'completed'").await > 0 {
        assert!(began.elapsed() < WAIT, "jobs are stuck");
        // Every lease is free again and again, whatever its holder thinks.
        database.execute("UPDATE {schema}.maintenance SET leased_until = now() - interval '1 s'").await;
    }
    let once = "SELECT count(*) FROM {schema}.job WHERE attempt = 1 AND errors = '[]'";
    assert_eq!(database.number(once).await, i64::from(JOBS));
}

#[support::test]
async fn nobody_waits_for_a_lease_that_somebody_has_locked(database: Database) {
    database.start(caretaker(&database).name("r")).await;
    eventually!(holder(&database, "promoter").await == "r", "no runner promotes");
    let locked = database.begin("SELECT FROM {schema}.maintenance FOR UPDATE").await;
    let began = Instant::now();
    database.end().await;
    // Each lease that is given up waits as long as its statement may wait for a lock, and no longer.
    assert!(began.elapsed() < WAIT / 2, "{:?}", began.elapsed());
    locked.rollback().await.unwrap();
}
