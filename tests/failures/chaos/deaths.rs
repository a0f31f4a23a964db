//! Dead runners: the time until their jobs run elsewhere, the late results of a runner with a lost lease, and orderly
//! stops.

use support::prelude::*;
use support::work::UNTIL_GO;

const LEASE: Duration = Duration::from_secs(2);

async fn order(database: &Database, name: &str) -> Order {
    database.execute("CREATE TABLE IF NOT EXISTS {schema}.effect (job uuid NOT NULL, attempt smallint NOT NULL)").await;
    Order::new(&database.url, &database.schema, name)
}

async fn insert(database: &Database, deed: Deed, millis: u64) -> JobId {
    database.client.insert(Work { deed, millis }).await.unwrap().id()
}

async fn until(database: &Database, id: JobId, what: &str, holds: impl Fn(&JobRow) -> bool) -> JobRow {
    eventually!(
        let row = database.client.job(id).await.unwrap().expect("the job");
        holds(&row), "{what}: {row:?}"
    )
}

/// Kills a runner in the midst of a job and measures until another runs it.
async fn from_kill_to_restart(lease: Duration) -> Duration {
    let database = Database::new().await;
    let order = Order { lease, ..order(&database, "victim").await };
    let mut victim = RunnerProcess::start(&order);
    let job = insert(&database, Deed::Hang, 0).await;
    until(&database, job, "the first start", |row| row.state == JobState::Running).await;
    // The other is there already, as it would be in a service, with the same lease.
    let work = |_: RunningJob<Work>| async {};
    let other = quick(&database.client).lease(lease).worker(work).start().await.unwrap();
    let killed = Instant::now();
    victim.kill();
    let row = until(&database, job, "the start elsewhere", |row| row.run == 2).await;
    let took = killed.elapsed();
    assert!(row.errors[0].error.contains("rescued"), "{:?}", row.errors);
    other.stop().await.unwrap();
    took
}

#[tokio::test]
async fn the_jobs_of_a_killed_process_run_elsewhere_soon_after_its_lease() {
    let lease = 2 * LEASE;
    let took = tokio::join!(from_kill_to_restart(lease), from_kill_to_restart(lease), from_kill_to_restart(lease));
    println!("kill -9 to restart elsewhere with a lease of {lease:?}: {took:.2?}");
    let longest = took.0.max(took.1).max(took.2);
    // As docs/learn/workers.md says: the lease, at most half of it until another runner looks, and the back-off of a second.
    let promised = lease * 3 / 2 + Duration::from_secs(1);
    assert!(longest < promised + Duration::from_secs(2), "{took:?}, with two seconds for a busy machine");
}

/// Half a minute, for the number's sake: `cargo test --test failures default_lease -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "measures for half a minute"]
async fn the_jobs_of_a_killed_process_with_the_default_lease_run_elsewhere_within_half_a_minute() {
    let lease = Duration::from_secs(20);
    let took = from_kill_to_restart(lease).await;
    println!("kill -9 to restart elsewhere with the default lease of {lease:?}: {took:.2?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[support::test]
async fn a_process_that_wakes_up_late_finishes_nothing_extends_nothing_and_stops_its_jobs(database: Database) {
    let sleeper = RunnerProcess::start(&order(&database, "sleeper").await);
    // They end as soon as the process wakes up, and one writes an effect if it can.
    let late = insert(&database, Deed::Effect, UNTIL_GO).await;
    let plain = insert(&database, Deed::Output, UNTIL_GO).await;
    let endless = insert(&database, Deed::Hang, 0).await;
    let jobs = [late, plain, endless];
    for job in jobs {
        until(&database, job, "a start", |row| row.state == JobState::Running).await;
    }
    sleeper.signal("STOP");
    let before = database.client.job(late).await.unwrap().unwrap().worker.unwrap();
    // A second runner, which does nothing with what it gets for now.
    let held = |_: RunningJob<Work>| std::future::pending::<()>();
    let other = quick(&database.client).lease(LEASE).worker(held).start().await.unwrap();
    for job in jobs {
        until(&database, job, "a rescue", |row| row.worker == Some(other.id())).await;
    }
    database.execute("CREATE TABLE {schema}.go ()").await;
    sleeper.signal("CONT");
    // It finds its lease lost and goes on under a new one: the old one is never extended.
    let lives = database
        .sql("SELECT id, leased_until > clock_timestamp() AS alive FROM {schema}.runner WHERE name = 'sleeper'");
    eventually!(
        {
            let rows = sqlx::query(lives.clone()).fetch_all(database.pool()).await.unwrap();
            let alive: Vec<uuid::Uuid> = rows.iter().filter(|row| row.get("alive")).map(|row| row.get("id")).collect();
            assert!(!alive.contains(&before), "a lease that ran out was extended");
            !alive.is_empty()
        },
        "no new life"
    );
    // A full slot's worth of fresh jobs shows that it works again, and that the old job's slot is free.
    let probe = NewJob::from(Work { deed: Deed::Plain, millis: 0 }).queue("other");
    let probe = database.client.insert(probe).await.unwrap();
    until(&database, probe.id(), "work under a new lease", |row| row.state == JobState::Completed).await;
    // Its job that never ends was stopped, or this stop would take its 30 s.
    let began = Instant::now();
    let mut sleeper = sleeper;
    sleeper.signal("TERM");
    assert!(sleeper.ended().await.success());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    for job in jobs {
        let row = database.client.job(job).await.unwrap().unwrap();
        assert_eq!((row.state, row.run, row.worker), (JobState::Running, 2, Some(other.id())), "{row:?}");
        assert_eq!((row.errors.len(), row.output), (1, None));
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.effect").await, 0);
    database.client.cancel(jobs).await.unwrap();
    drop(other);
}

#[support::test]
async fn a_process_that_is_told_to_end_under_load_loses_no_attempt(database: Database) {
    let stop_timeout = Duration::from_millis(400);
    let mut runner = RunnerProcess::start(&Order { stop_timeout, ..order(&database, "busy").await });
    let deeds = [(Deed::Plain, 0), (Deed::Plain, 5), (Deed::Output, 30), (Deed::Effect, 5), (Deed::Hang, 0)];
    let jobs = (0..2_000).map(|n| {
        // Some that never end have to be given back; too many would fill every slot.
        let (deed, millis) = if n % 400 == 399 { deeds[4] } else { deeds[n % 4] };
        NewJob::from(Work { deed, millis }).queue(if n % 2 == 0 { "default" } else { "other" })
    });
    database.client.insert_many(jobs).await.unwrap();
    eventually!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'completed'").await >= 500);
    runner.signal("TERM");
    assert!(runner.ended().await.success());
    let left = "SELECT count(*) FROM {schema}.job
        WHERE NOT (state = 'completed' AND attempt = 1) AND NOT (state = 'available' AND attempt = 0)";
    assert_eq!(database.number(left).await, 0, "an attempt was lost");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE errors <> '[]'").await, 0);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner").await, 0);
    let effects = "SELECT (SELECT count(*) FROM {schema}.effect)
        - (SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND args ->> 'deed' = 'effect')";
    assert_eq!(database.number(effects).await, 0);
    assert!(
        database.number("SELECT count(*) FROM {schema}.job WHERE state = 'available'").await > 0,
        "it was under load"
    );
}

#[support::test]
async fn a_network_that_falls_silent_costs_a_lease_and_not_the_runner(database: Database) {
    let proxy = Proxy::before(&database.url).await;
    let runner = RunnerProcess::start(&Order { url: proxy.url(), ..order(&database, "far away").await });
    // Those that fail need maintenance as well.
    let deeds = [Deed::Plain, Deed::Output, Deed::Plain, Deed::Fail];
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let done = "SELECT count(*) FROM {schema}.job WHERE state = 'completed'";
        let before = database.number(done).await;
        let more = (0..200).map(|n| NewJob::from(Work { deed: deeds[n % 4], millis: 20 }));
        jobs.extend(database.client.insert_many(more).await.unwrap());
        eventually!(database.number(done).await != before, "nothing is worked any more");
        // In the midst of fetches, results and heartbeats; nothing is closed, nothing answers.
        proxy.freeze();
    }
    for job in &jobs {
        until(&database, job.id(), "an end", |row| row.state.is_final()).await;
    }
    drop(runner);
}
