//! The start of jobs: wake-ups, polling, order, schedules, and kinds without a worker.

use super::until_idle;
use support::prelude::*;

/// A runner that hardly polls, of two queues that are held back, too: one is paused, one has a limit.
async fn beside_held_back(database: &Database, work: impl Worker<Task>) {
    let runner = quick(&database.client).queue("paused", 2).queue("limited", 2).poll_interval(HOUR);
    database.start(runner.worker(work)).await;
}

#[support::test]
async fn an_idle_runner_is_woken_long_before_its_next_poll(database: Database) {
    let (work, mut started) = telling(|job| job.args.n);
    database.start(quick(&database.client).poll_interval(HOUR).worker(work)).await;
    until_idle(&database).await;
    // In a transaction of the caller's own, so that the wake-up comes with the commit.
    for n in 0..20 {
        let mut tx = database.pool().begin().await.unwrap();
        database.client.insert(Task { n }).tx(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(next(&mut started).await, n);
    }
}

#[support::test]
async fn a_wake_up_for_a_queue_that_gives_nothing_hides_no_other_queue_and_no_limited_one(database: Database) {
    let client = &database.client;
    client.queue("paused").pause().await.unwrap();
    client.queue("limited").limit(Some(1)).await.unwrap();
    let (work, mut started) = telling(|job| job.args.n);
    beside_held_back(&database, work).await;
    for n in 0..5 {
        until_idle(&database).await;
        client.insert(Task { n }).queue("limited").await.unwrap();
        assert_eq!(next(&mut started).await, n);
        until_idle(&database).await;
        let mut tx = client.pool().begin().await.unwrap();
        client.insert(Task { n: 99 }).queue("paused").tx(&mut tx).await.unwrap();
        client.insert(Task { n }).tx(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(next(&mut started).await, n);
    }
}

#[support::test(with_connections(10), flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_wake_ups_for_one_queue_holds_up_no_other_and_no_limited_one(database: Database, client: &Client) {
    client.queue("paused").pause().await.unwrap();
    client.queue("limited").limit(Some(2)).await.unwrap();
    let (work, mut started) = telling(|job| job.args.n);
    // A fetch takes a while, in which the next wake-ups come.
    let slow = "CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END $$;
        CREATE TRIGGER slow AFTER UPDATE ON {schema}.job FOR EACH STATEMENT EXECUTE FUNCTION {schema}.slow()";
    sqlx::raw_sql(database.sql(slow)).execute(database.pool()).await.unwrap();
    beside_held_back(&database, work).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let streams = (0..4).map(|stream| {
        let (client, is_over) = (client.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                client.insert(Task { n: 99 }).queue(["paused", "limited"][stream % 2]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        })
    });
    let streams: Vec<_> = streams.collect();
    for n in 0..5 {
        client.insert(Task { n }).await.unwrap();
        let inserted = Instant::now();
        let mut limited = 0;
        while next(&mut started).await != n {
            limited += 1;
        }
        assert!(inserted.elapsed() < Duration::from_secs(5), "{n} after {limited} others");
    }
    while next(&mut started).await != 99 {}
    is_over.store(true, Ordering::Relaxed);
    for stream in streams {
        stream.await.unwrap();
    }
}

#[support::test]
async fn a_runner_is_not_notified_of_jobs_that_come_quickly_though_never_two_at_a_time(database: Database) {
    let (work, mut started) = telling(|job| job.args.n);
    database.start(quick(&database.client).worker(work)).await;
    until_idle(&database).await;
    let began = Instant::now();
    // Each insert waits for the last one's job, so there is never a crowd.
    for n in 0.. {
        // A busy machine needs a while until it works so many in a moment.
        assert!(began.elapsed() < 4 * WAIT, "notified of each of {n} jobs");
        database.client.insert(Task { n }).await.unwrap();
        assert_eq!(next(&mut started).await, n);
        // Asked seldom, since the question itself keeps the next job waiting.
        if n % 20 == 19 && database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await == 0 {
            break;
        }
    }
    // And when nothing comes any more it asks to be notified again.
    until_idle(&database).await;
}

#[support::test]
async fn nothing_is_notified_unless_an_idle_runner_wants_the_queue(database: Database) {
    let mut listener = database.listen(&["job"]).await;
    database.client.insert(job("unheard")).await.unwrap();
    let (work, mut started) = telling(|job| job.args.n);
    database.start(quick(&database.client).worker(work)).await;
    until_idle(&database).await;
    database.client.insert(job("elsewhere").queue("elsewhere")).await.unwrap();
    database.client.insert(Task { n: 1 }).scheduled_in(MINUTE).await.unwrap();
    database.client.insert(Task { n: 2 }).await.unwrap();
    assert_eq!(next(&mut started).await, 2);
    let notification = timeout(WAIT, listener.recv()).await.unwrap().unwrap();
    assert_eq!(notification.payload(), "default");
    assert!(listener.next_buffered().is_none(), "one notification in all");
}

#[support::test]
async fn an_idle_runner_finds_jobs_where_nobody_can_be_notified(database: Database) {
    database.fill_notify_queue().await;
    let (work, mut started) = telling(|job| job.args.n);
    let interval = Duration::from_millis(50);
    database.start(quick(&database.client).poll_interval(interval).worker(work)).await;
    for n in 0..3 {
        until_idle(&database).await;
        database.client.insert(Task { n }).await.unwrap();
        assert_eq!(next(&mut started).await, n);
    }
}

#[support::test]
async fn higher_priority_runs_first_then_earlier_schedule_then_id(database: Database) {
    let past = time::OffsetDateTime::UNIX_EPOCH;
    for n in 0..3 {
        database.client.insert(Task { n: 10 + n }).await.unwrap();
    }
    database.client.insert(Task { n: 1 }).priority(5).await.unwrap();
    database.client.insert(Task { n: 2 }).scheduled_at(past).await.unwrap();
    database.client.insert(Task { n: 99 }).priority(-1).scheduled_at(past).await.unwrap();
    let (work, mut started) = telling(|job| job.args.n);
    let one_at_a_time = database.runner().queue("default", 1).worker(work);
    database.start(one_at_a_time).await;
    let mut order = Vec::new();
    for _ in 0..6 {
        order.push(next(&mut started).await);
    }
    assert_eq!(order, [1, 2, 10, 11, 12, 99]);
}

#[support::test]
async fn a_runner_that_makes_no_sense_does_not_start(database: Database) {
    let task = at_once;
    let new = || database.runner();
    for (runner, said) in [
        (new().worker(task), "no queue"),
        (new().queue("a", 1), "no worker"),
        (new().queue("a", 1).queue("a", 2).worker(task), "twice: a"),
        (new().queue("a", 0).worker(task), "at least 1: 0"),
        (new().queue("a", 1).worker(task).worker(task), "\"task\""),
        (new().queue("", 1).worker(task), "invalid queue"),
        (new().queue("a", 1).worker(task).lease(Duration::ZERO), "lease"),
        (new().queue("a", 1).worker(task).prune_interval(Duration::ZERO), "prune_interval"),
        (new().queue("a", 1).worker(task).timeout(Duration::ZERO), "timeout"),
    ] {
        let error = runner.start().await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let unmigrated = Database::unmigrated(2).await;
    let error = Runner::new(unmigrated.client.clone()).queue("a", 1).worker(task).start().await.unwrap_err();
    assert!(matches!(error, uniqueue::Error::NotMigrated { found: 0, .. }), "{error}");
}
