//! Middleware around the work: it sees every attempt and can change the outcome.

use uniqueue::{AnyJob, Middleware, Next};

use support::prelude::*;

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, what: impl Into<String>) {
    log.lock().unwrap().push(what.into());
}

/// Says when it is entered and left.
struct Noting(&'static str, Log);

impl Middleware for Noting {
    async fn call(&self, job: AnyJob, next: Next) -> Result<Outcome, BoxError> {
        note(&self.1, format!("{} in {} {}", self.0, job.kind(), job.attempt()));
        let result = next.run().await;
        note(&self.1, format!("{} out {}", self.0, result.is_ok()));
        result
    }
}

#[derive(Debug, serde::Deserialize, Job, serde::Serialize)]
#[job(kind = "other")]
struct Other {}

#[support::test]
async fn several_nest_in_the_order_added_around_every_attempt_of_every_kind(database: Database) {
    let log = Log::default();
    let worked = log.clone();
    let work = move |job: RunningJob<Task>| {
        note(&worked, "work");
        async move { if job.attempt() < 2 { Err("not yet") } else { Ok(()) } }
    };
    let runner = quick(&database.client).middleware(Noting("outer", log.clone())).worker(work);
    database.start(runner.worker(|_: RunningJob<Other>| async {}).middleware(Noting("inner", log.clone()))).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    database.until_state(job.id(), JobState::Completed).await;
    let first = ["outer in task 1", "inner in task 1", "work", "inner out false", "outer out false"];
    let second = ["outer in task 2", "inner in task 2", "work", "inner out true", "outer out true"];
    assert_eq!(std::mem::take(&mut *log.lock().unwrap()), [first, second].concat());
    let job = database.client.insert(Other {}).await.unwrap();
    database.until_state(job.id(), JobState::Completed).await;
    assert_eq!(*log.lock().unwrap(), ["outer in other 1", "inner in other 1", "inner out true", "outer out true"]);
}

#[support::test]
async fn an_async_function_sees_the_job_and_the_runners_state(database: Database) {
    async fn look(job: AnyJob, next: Next) -> Result<Outcome, BoxError> {
        let log: &Log = job.state()?;
        note(log, format!("{} {} {}", job.id(), job.queue(), job.row().meta["tenant"]));
        next.run().await
    }
    let log = Log::default();
    database.start(quick(&database.client).state(log.clone()).middleware(look).worker(at_once)).await;
    let job = database.client.insert(Task { n: 1 }).meta("tenant", 7).await.unwrap();
    database.until_state(job.id(), JobState::Completed).await;
    assert_eq!(*log.lock().unwrap(), [format!("{} default 7", job.id())]);
}

#[support::test]
async fn a_middleware_can_keep_a_job_from_being_worked_with_any_outcome_or_an_error(database: Database) {
    let guard = |job: AnyJob, next: Next| async move {
        match job.row().args_as::<Task>()?.n {
            0 => Ok(Outcome::snooze(Duration::from_secs(600))),
            1 => Ok(Outcome::cancel("not by day")),
            2 => Err("no way in".into()),
            _ => next.run().await,
        }
    };
    let work = |job: RunningJob<Task>| async move {
        assert_eq!(job.args.n, 3);
    };
    database.start(quick(&database.client).middleware(guard).worker(work)).await;
    for (n, state, said) in [
        (0, JobState::Scheduled, None),
        (1, JobState::Cancelled, Some("not by day")),
        (2, JobState::Discarded, Some("no way in")),
        (3, JobState::Completed, None),
    ] {
        let job = database.client.insert(Task { n }).max_attempts(1).await.unwrap();
        let row = database.until_state(job.id(), state).await;
        assert_eq!(row.errors.first().map(|error| error.error.as_str()), said);
    }
}

#[support::test]
async fn a_middleware_can_change_what_the_worker_said(database: Database) {
    let lenient = |_: AnyJob, next: Next| async move {
        next.run().await.or_else(|error| Ok::<_, BoxError>(Outcome::complete_with(format!("despite {error}"))?))
    };
    let work = |_: RunningJob<Task>| async { Err::<(), _>("no luck") };
    database.start(quick(&database.client).middleware(lenient).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    let row = database.until_state(job.id(), JobState::Completed).await;
    assert_eq!(row.output, Some("despite no luck".into()));
}

#[support::test]
async fn a_panic_in_a_middleware_is_a_failed_attempt(database: Database) {
    let clumsy = |job: AnyJob, next: Next| async move {
        assert!(job.attempt() > 1, "dropped it");
        next.run().await
    };
    database.start(quick(&database.client).middleware(clumsy).worker(at_once)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    let row = database.until_state(job.id(), JobState::Completed).await;
    let error = &row.errors[0].error;
    assert!(error.starts_with("panicked at tests/runner/middleware.rs:") && error.ends_with("dropped it"), "{error}");
}

#[support::test]
async fn a_stop_drops_a_middleware_with_the_work(database: Database) {
    static STARTED: Notify = Notify::const_new();
    static DROPPED: Notify = Notify::const_new();
    struct Dropped;
    impl Drop for Dropped {
        fn drop(&mut self) {
            DROPPED.notify_one();
        }
    }
    let hanging = async |_: AnyJob, _: Next| {
        let _dropped = Dropped;
        STARTED.notify_one();
        std::future::pending::<()>().await;
    };
    let runner = quick(&database.client).stop_timeout(Duration::from_millis(10)).middleware(hanging);
    let runner = runner.worker(at_once).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, STARTED.notified()).await.unwrap();
    runner.stop().await.unwrap();
    timeout(WAIT, DROPPED.notified()).await.unwrap();
    let row = database.client.job(job.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt), (JobState::Available, 0));
}
