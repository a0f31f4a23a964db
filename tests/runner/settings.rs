//! The settings of a runner, and what its start checks.

use support::prelude::*;

#[support::test]
async fn settings_longer_than_any_clock_goes_are_a_hundred_years(database: Database) {
    const MAX: Duration = Duration::MAX;
    let old = database.client.insert(Task { n: 1 }).await.unwrap();
    database.client.cancel(old.id()).await.unwrap();
    database.execute("UPDATE {schema}.job SET finalized_at = now() - interval '1 hour'").await;
    let runner = database.runner().queue("default", 1).worker(at_once);
    let runner = runner.retention(Retention::forever().cancelled(Duration::from_millis(1)));
    let runner = runner.timeout(MAX).poll_interval(MAX).promote_interval(MAX).prune_interval(MAX).reindex_interval(MAX);
    let runner = runner.lease(MAX).stop_timeout(MAX).stop_grace(MAX).start().await.unwrap();
    let leased = "SELECT count(*) FROM {schema}.runner WHERE leased_until < now() + interval '101 years'";
    assert_eq!(database.number(leased).await, 1);
    // Every part of it lives: the old job is pruned, a new one is worked, and so is one after a fetch that failed.
    database.until("SELECT count(*) FROM {schema}.job", 0).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    database.until_state(job.id(), JobState::Completed).await;
    database.execute("ALTER TABLE {schema}.queue RENAME TO away").await;
    let later = "INSERT INTO {schema}.job (id, kind, args) VALUES (gen_random_uuid(), 'task', '{\"n\": 2}')";
    database.execute(later).await;
    database.execute("SELECT pg_notify('{schema}.job', 'default')").await;
    until_sent("_fetch_jobs", 1).await;
    database.execute("ALTER TABLE {schema}.away RENAME TO queue").await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 2).await;
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner").await, 0);
}

#[derive(Deserialize, Job, Serialize)]
#[job(kind = "mail", queue = "emails")]
struct Mail {}

async fn send(_: RunningJob<Mail>) {}

async fn refused(runner: Runner) -> String {
    runner.start().await.unwrap_err().to_string()
}

#[support::test]
async fn a_worker_whose_kinds_queue_the_runner_does_not_work_is_an_error_at_the_start(database: Database) {
    let runner = || database.runner().queue("default", 1).worker(at_once);
    let error = refused(runner().worker(send)).await;
    let expected = "cannot start the runner: jobs of kind \"mail\" go to queue \"emails\", which it does not work; hint: add .queue(\"emails\", 10)";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner").await, 0);
    runner().queue("emails", 1).worker(send).start().await.unwrap().stop().await.unwrap();
    // Where the inserts name another queue, the options say so.
    let elsewhere = |queue: &str| runner().worker_with(send, WorkerOptions::new().queue(queue));
    elsewhere("default").start().await.unwrap().stop().await.unwrap();
    let error = refused(elsewhere("bulk")).await;
    assert!(error.contains("jobs of kind \"mail\" go to queue \"bulk\", which it does not work"), "{error}");
}

#[support::test]
async fn the_queue_that_the_client_sets_for_all_kinds_is_checked_too(database: Database) {
    let defaults = InsertOptions::new().queue("main");
    let client = database.builder().defaults(defaults).pool(database.pool().clone());
    let runner = || Runner::new(client.clone()).worker(at_once);
    let error = refused(runner().queue("default", 1)).await;
    assert!(error.contains("jobs of kind \"task\" go to queue \"main\""), "{error}");
    runner().queue("main", 1).start().await.unwrap().stop().await.unwrap();
}

#[support::test]
async fn the_health_of_a_runner_says_whether_it_is_alive_and_finished(database: Database) {
    let lease = Duration::from_secs(2);
    let started = Instant::now();
    let runner = quick(&database.client).lease(lease).worker(at_once).start().await.unwrap();
    let health = runner.health();
    assert!(health.is_alive() && !health.is_finished());
    // Heartbeats come on while time passes.
    while started.elapsed() < 2 * lease {
        assert!(health.last_heartbeat() < lease, "{health:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(health.is_alive());
    // Its row goes, as if it had been silent for longer than a lease: it goes on under another one.
    database.execute("ALTER TABLE {schema}.runner RENAME TO away").await;
    eventually!(!health.is_alive(), "{health:?}");
    assert!(!health.is_finished());
    database.execute("ALTER TABLE {schema}.away RENAME TO runner").await;
    eventually!(health.is_alive(), "{health:?}");
    runner.stop().await.unwrap();
    assert!(health.is_finished() && !health.is_alive(), "{health:?}");
}
