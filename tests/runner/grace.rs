//! The grace period of running work after a stop.

use support::prelude::*;

/// A grace that no test waits for.
const LONG: Duration = HOUR;

/// A runner that tells its jobs to stop as soon as it is stopped.
fn hasty(database: &Database) -> Runner {
    quick(&database.client).stop_timeout(Duration::ZERO).stop_grace(LONG)
}

/// Says when it is dropped.
struct Dropped(&'static Notify);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn heard(signal: &Notify) {
    timeout(WAIT, signal.notified()).await.expect("a signal");
}

#[support::test]
async fn what_stopped_work_returns_within_the_grace_counts_and_an_error_costs_no_attempt(database: Database) {
    static STARTED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        assert!(!job.is_stopped());
        STARTED.notify_one();
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
    };
    let runner = hasty(&database).worker(work).start().await.unwrap();
    let mut jobs = Vec::new();
    for n in 0..5 {
        jobs.push(database.client.insert(Task { n }).await.unwrap());
        heard(&STARTED).await;
    }
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
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
    static STARTED: Notify = Notify::const_new();
    static STOPPED: Notify = Notify::const_new();
    static DROPPED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        let _dropped = Dropped(&DROPPED);
        STARTED.notify_one();
        job.stopped().await;
        STOPPED.notify_one();
        std::future::pending::<()>().await;
    };
    for grace in [Duration::ZERO, Duration::from_millis(50)] {
        let runner = hasty(&database).stop_grace(grace).worker(work).start().await.unwrap();
        let job = database.client.insert(Task { n: 1 }).await.unwrap();
        heard(&STARTED).await;
        timeout(WAIT, runner.stop()).await.unwrap().unwrap();
        heard(&STOPPED).await;
        heard(&DROPPED).await;
        let row = database.client.job(job.id()).await.unwrap().unwrap();
        assert_eq!((row.state, row.attempt, row.errors.len()), (JobState::Available, 0, 0));
        database.execute("DELETE FROM {schema}.job").await;
    }
}

#[support::test]
async fn a_lost_lease_leaves_no_grace(database: Database) {
    static STARTED: Notify = Notify::const_new();
    static DROPPED: Notify = Notify::const_new();
    static IS_FIRST: AtomicBool = AtomicBool::new(true);
    let work = async |job: RunningJob<Task>| {
        if IS_FIRST.swap(false, Ordering::SeqCst) {
            let _dropped = Dropped(&DROPPED);
            STARTED.notify_one();
            assert_eq!(job.stopped().await, StopReason::LeaseLost);
            std::future::pending::<()>().await;
        }
    };
    database.start(hasty(&database).lease(Duration::from_secs(1)).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    heard(&STARTED).await;
    database.end_leases().await;
    heard(&DROPPED).await;
    database.until_state(job.id(), JobState::Completed).await;
}

#[support::test]
async fn a_lease_that_is_lost_within_the_grace_ends_it(database: Database) {
    static STARTED: Notify = Notify::const_new();
    static STOPPED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        STARTED.notify_one();
        job.stopped().await;
        STOPPED.notify_one();
        std::future::pending::<()>().await;
    };
    let runner = hasty(&database).lease(Duration::from_secs(1)).worker(work).start().await.unwrap();
    database.client.insert(Task { n: 1 }).await.unwrap();
    heard(&STARTED).await;
    let stopping = tokio::spawn(runner.stop());
    heard(&STOPPED).await;
    database.end_leases().await;
    timeout(WAIT, stopping).await.expect("a stop within the grace").unwrap().unwrap();
}

#[support::test]
async fn the_token_fires_with_the_signal_and_cannot_stop_the_job_itself(database: Database) {
    static STARTED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        job.cancellation_token().cancel();
        assert!(!job.is_stopped());
        let token = job.cancellation_token();
        assert!(!token.is_cancelled());
        STARTED.notify_one();
        token.cancelled().await;
        Outcome::discard(format!("{:?}", job.stopped().await))
    };
    let runner = hasty(&database).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    heard(&STARTED).await;
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let row = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!(row.errors[0].error, "Stopping");
}

#[support::test]
async fn a_hard_stop_wakes_those_who_can_go_on_with_the_jobs(database: Database) {
    static STARTED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        STARTED.notify_one();
        job.stopped().await;
        Err::<(), _>("interrupted")
    };
    let runner = hasty(&database).poll_only().worker(work).start().await.unwrap();
    database.client.insert(Task { n: 1 }).await.unwrap();
    heard(&STARTED).await;
    database.idle_runner("default").await;
    let mut listener = database.listen(&["job"]).await;
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let notification = timeout(WAIT, listener.recv()).await.expect("a wake-up").unwrap();
    assert_eq!(notification.payload(), "default");
}

#[support::test]
async fn a_hard_stop_under_load_loses_no_attempt_in_any_phase(database: Database) {
    const JOBS: u32 = 1000;
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let work = async |job: RunningJob<Task>| {
        STARTED.fetch_add(1, Ordering::SeqCst);
        match job.args.n % 8 {
            // Done at once, and done while the stop is under way.
            0 | 1 => {}
            2 => tokio::task::yield_now().await,
            3 => tokio::time::sleep(Duration::from_millis(1)).await,
            4 => drop(job.stopped().await),
            5 => {
                job.cancellation_token().cancelled().await;
                return Err("interrupted");
            }
            6 => {
                job.stopped().await;
                panic!("interrupted")
            }
            // Deaf: dropped after the grace.
            _ => std::future::pending().await,
        }
        Ok(())
    };
    // Some run, some wait behind them: half of what runs does not end by itself.
    database.client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    let runner = database.runner().queue("default", 400).stop_timeout(Duration::ZERO);
    let runner = runner.stop_grace(Duration::from_millis(100)).worker(work).start().await.unwrap();
    while STARTED.load(Ordering::SeqCst) < 500 {
        tokio::task::yield_now().await;
    }
    timeout(WAIT, runner.stop()).await.unwrap().unwrap();
    let completed = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1 AND errors = '[]'";
    let waiting = "SELECT count(*) FROM {schema}.job WHERE state = 'available' AND attempt = 0 AND errors = '[]'";
    let (completed, waiting) = (database.number(completed).await, database.number(waiting).await);
    assert_eq!(completed + waiting, i64::from(JOBS));
    // Three of eight never complete, and two of eight always do once they started.
    assert!(completed >= 100 && waiting >= 375, "{completed} {waiting}");
}
