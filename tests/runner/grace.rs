//! The grace period of running work after a stop.

use super::until;
use support::prelude::*;

/// A grace that no test waits for.
const LONG: Duration = Duration::from_secs(3600);

/// A runner that tells its jobs to stop as soon as it is stopped.
fn hasty(database: &Database) -> Runner {
    quick(&database.client).stop_timeout(Duration::ZERO).stop_grace(LONG)
}

/// Says when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn heard(signal: &Notify) {
    tokio::time::timeout(WAIT, signal.notified()).await.expect("a signal");
}

#[support::test]
async fn what_stopped_work_returns_within_the_grace_counts_and_an_error_costs_no_attempt(database: Database) {
    let started = Arc::new(Notify::new());
    let signal = started.clone();
    let work = move |job: RunningJob<Task>| {
        let signal = signal.clone();
        async move {
            assert!(!job.is_stopped());
            signal.notify_one();
            let reason = job.stopped().await;
            assert!(job.is_stopped() && reason == StopReason::Stopping, "{reason:?}");
            // Cleaning up takes more than a moment.
            tokio::task::yield_now().await;
            match job.args.n {
                0 => Ok(Outcome::complete_with("just in time").unwrap()),
                1 => Err("interrupted"),
                2 => panic!("interrupted"),
                3 => Ok(Outcome::snooze(LONG)),
                _ => Ok(Outcome::discard("of no use")),
            }
        }
    };
    let runner = hasty(&database).worker(work).start().await.unwrap();
    let mut jobs = Vec::new();
    for n in 0..5 {
        jobs.push(database.client.insert(Task { n }).await.unwrap());
        heard(&started).await;
    }
    tokio::time::timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let expected = [
        (JobState::Completed, 1, 0),
        (JobState::Available, 0, 0),
        (JobState::Available, 0, 0),
        (JobState::Scheduled, 0, 0),
        (JobState::Discarded, 1, 1),
    ];
    for (inserted, expected) in jobs.iter().zip(expected) {
        let row = database.client.job(inserted.id()).await.unwrap().unwrap();
        assert_eq!((row.state, row.attempt, row.errors.len()), expected);
        if row.state == JobState::Available {
            assert_eq!(row.scheduled_at, inserted.job.scheduled_at, "its place in the queue");
        }
    }
}

#[support::test]
async fn work_that_goes_on_after_the_grace_is_dropped_and_its_job_given_back(database: Database) {
    for grace in [Duration::ZERO, Duration::from_millis(50)] {
        let (stopped, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let started = Arc::new(Notify::new());
        let signals = (started.clone(), stopped.clone(), dropped.clone());
        let work = move |job: RunningJob<Task>| {
            let (started, stopped, dropped) = signals.clone();
            async move {
                let _dropped = Dropped(dropped);
                started.notify_one();
                job.stopped().await;
                stopped.notify_one();
                std::future::pending::<()>().await;
            }
        };
        let runner = hasty(&database).stop_grace(grace).worker(work).start().await.unwrap();
        let job = database.client.insert(Task { n: 1 }).await.unwrap();
        heard(&started).await;
        tokio::time::timeout(WAIT, runner.stop()).await.unwrap().unwrap();
        heard(&stopped).await;
        heard(&dropped).await;
        let row = database.client.job(job.id()).await.unwrap().unwrap();
        assert_eq!((row.state, row.attempt, row.errors.len()), (JobState::Available, 0, 0));
        database.execute("DELETE FROM {schema}.job").await;
    }
}

#[support::test]
async fn a_lost_lease_leaves_no_grace(database: Database) {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let is_first = Arc::new(AtomicBool::new(true));
    let signals = (started.clone(), dropped.clone());
    let work = move |job: RunningJob<Task>| {
        let (started, dropped) = signals.clone();
        let is_first = is_first.swap(false, Ordering::SeqCst);
        async move {
            if is_first {
                let _dropped = Dropped(dropped);
                started.notify_one();
                assert_eq!(job.stopped().await, StopReason::LeaseLost);
                std::future::pending::<()>().await;
            }
        }
    };
    database.start(hasty(&database).lease(Duration::from_secs(1)).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    heard(&started).await;
    database.execute("UPDATE {schema}.runner SET leased_until = now() - interval '1 s'").await;
    heard(&dropped).await;
    until(&database, job.id(), JobState::Completed).await;
}

#[support::test]
async fn a_lease_that_is_lost_within_the_grace_ends_it(database: Database) {
    let (started, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let signals = (started.clone(), stopped.clone());
    let work = move |job: RunningJob<Task>| {
        let (started, stopped) = signals.clone();
        async move {
            started.notify_one();
            job.stopped().await;
            stopped.notify_one();
            std::future::pending::<()>().await;
        }
    };
    let runner = hasty(&database).lease(Duration::from_secs(1)).worker(work).start().await.unwrap();
    database.client.insert(Task { n: 1 }).await.unwrap();
    heard(&started).await;
    let stopping = tokio::spawn(runner.stop());
    heard(&stopped).await;
    database.execute("UPDATE {schema}.runner SET leased_until = now() - interval '1 s'").await;
    tokio::time::timeout(WAIT, stopping).await.expect("a stop within the grace").unwrap().unwrap();
}

#[support::test]
async fn the_token_fires_with_the_signal_and_cannot_stop_the_job_itself(database: Database) {
    let started = Arc::new(Notify::new());
    let signal = started.clone();
    let work = move |job: RunningJob<Task>| {
        let signal = signal.clone();
        async move {
            job.cancellation_token().cancel();
            assert!(!job.is_stopped());
            let token = job.cancellation_token();
            assert!(!token.is_cancelled());
            signal.notify_one();
            token.cancelled().await;
            Outcome::discard(format!("{:?}", job.stopped().await))
        }
    };
    let runner = hasty(&database).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    heard(&started).await;
    tokio::time::timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let row = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!(row.errors[0].error, "Stopping");
}

#[support::test]
async fn a_hard_stop_wakes_those_who_can_go_on_with_the_jobs(database: Database) {
    let started = Arc::new(Notify::new());
    let signal = started.clone();
    let work = move |job: RunningJob<Task>| {
        let signal = signal.clone();
        async move {
            signal.notify_one();
            job.stopped().await;
            Err::<(), _>("interrupted")
        }
    };
    let runner = hasty(&database).poll_only().worker(work).start().await.unwrap();
    database.client.insert(Task { n: 1 }).await.unwrap();
    heard(&started).await;
    let sleeper = "INSERT INTO {schema}.runner (id, name, queues, idle, leased_until, knows_groups)
        VALUES (gen_random_uuid(), 'sleeper', '{default}', true, now() + interval '1 hour', true)";
    database.execute(sleeper).await;
    let mut listener = PgListener::connect_with(database.pool()).await.unwrap();
    listener.listen(&format!("{}.job", database.schema)).await.unwrap();
    tokio::time::timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let notification = tokio::time::timeout(WAIT, listener.recv()).await.expect("a wake-up").unwrap();
    assert_eq!(notification.payload(), "default");
}

#[support::test]
async fn a_hard_stop_under_load_loses_no_attempt_in_any_phase(database: Database) {
    const JOBS: u32 = 1000;
    let started = Arc::new(AtomicU32::new(0));
    let counted = started.clone();
    let work = move |job: RunningJob<Task>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match job.args.n % 8 {
                // Done at once, and done while the stop is under way.
                0 | 1 => Ok(()),
                2 => {
                    tokio::task::yield_now().await;
                    Ok(())
                }
                3 => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    Ok(())
                }
                4 => {
                    job.stopped().await;
                    Ok(())
                }
                5 => {
                    job.cancellation_token().cancelled().await;
                    Err("interrupted")
                }
                6 => {
                    job.stopped().await;
                    panic!("interrupted")
                }
                // Deaf: dropped after the grace.
                _ => std::future::pending().await,
            }
        }
    };
    // Some run, some wait behind them: half of what runs does not end by itself.
    database.client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    let runner = database
        .runner()
        .queue("default", 400)
        .stop_timeout(Duration::ZERO)
        .stop_grace(Duration::from_millis(100))
        .worker(work)
        .start()
        .await
        .unwrap();
    while started.load(Ordering::SeqCst) < 500 {
        tokio::task::yield_now().await;
    }
    tokio::time::timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1 AND errors = '[]'";
    let waiting = "SELECT count(*) FROM {schema}.job WHERE state = 'available' AND attempt = 0 AND errors = '[]'";
    let (completed, waiting) = (database.number(completed).await, database.number(waiting).await);
    assert_eq!(completed + waiting, i64::from(JOBS));
    // Three of eight never complete, and two of eight always do once they started.
    assert!(completed >= 100 && waiting >= 375, "{completed} {waiting}");
}
