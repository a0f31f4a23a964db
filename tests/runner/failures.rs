//! Timeouts, panics, and errors that must not be tried again.

use std::error::Error;
use std::fmt;

use support::prelude::*;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = HOUR;

#[support::test]
async fn work_that_runs_too_long_fails_with_the_limit_in_its_error(database: Database) {
    let work = |job: RunningJob<Task>| async move {
        match job.args.n {
            // Deaf, and dropped after the grace.
            0 => std::future::pending().await,
            // It ends by itself, with something to say.
            1 => {
                assert_eq!(job.stopped().await, StopReason::TimedOut);
                Err("the parts are removed")
            }
            2 => {
                job.stopped().await;
                panic!("interrupted")
            }
            _ => Ok(()),
        }
    };
    database.start(quick(&database.client).timeout(SHORT).stop_grace(SHORT).worker(work)).await;
    for (n, errors) in [
        (0, ["timed out after 20 ms", "timed out after 20 ms"]),
        (1, ["timed out after 20 ms: the parts are removed"; 2]),
        (2, ["timed out after 20 ms: panicked at tests/runner/failures.rs:"; 2]),
    ] {
        let job = database.client.insert(Task { n }).max_attempts(2).await.unwrap();
        let row = database.until_state(job.id(), JobState::Discarded).await;
        assert_eq!((row.attempt, row.errors.len()), (2, 2));
        for (found, expected) in row.errors.iter().zip(errors) {
            assert!(found.error.starts_with(expected), "{}", found.error);
        }
    }
    let quick_one = database.client.insert(Task { n: 3 }).await.unwrap();
    database.until_state(quick_one.id(), JobState::Completed).await;
}

#[support::test]
async fn what_is_done_within_the_grace_of_a_timeout_counts_and_is_not_done_twice(database: Database) {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let work = async |job: RunningJob<Task>| {
        RUNS.fetch_add(1, Ordering::SeqCst);
        let reason = job.stopped().await;
        Outcome::complete_with(format!("{reason:?}"))
    };
    database.start(quick(&database.client).timeout(SHORT).stop_grace(LONG).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    let row = database.until_state(job.id(), JobState::Completed).await;
    assert_eq!((row.output, row.attempt), (Some(json!("TimedOut")), 1));
    assert_eq!(RUNS.load(Ordering::SeqCst), 1);
}

#[support::test]
async fn a_timeout_is_the_jobs_then_the_kinds_then_the_runners(database: Database) {
    /// Says for each job how long it may run.
    struct Patient;
    impl Worker<Task> for Patient {
        async fn work(&self, job: RunningJob<Task>) -> Result<Outcome, BoxError> {
            let stopped = timeout(Duration::from_millis(100), job.stopped()).await;
            Ok(Outcome::complete_with(stopped.is_ok())?)
        }
        fn timeout(&self, job: &RunningJob<Task>) -> Option<Duration> {
            match job.args.n {
                0 => None,
                1 => Some(Duration::MAX),
                n => Some(Duration::from_millis(n.into())),
            }
        }
    }
    let options = WorkerOptions::new;
    // What the options say, which job, and whether it is stopped; the runner's own is short.
    for (options, n, is_stopped) in [
        (options(), 0, true),
        (options(), 1, false),
        (options(), 5, true),
        (options(), 1_000_000, false),
        (options().timeout(LONG), 0, false),
        (options().timeout(SHORT), 1, true),
        (options().timeout(Duration::MAX), 5, false),
        (options().timeout(Duration::ZERO), 1, true),
    ] {
        let runner = quick(&database.client).timeout(SHORT).worker_with(Patient, options).start().await.unwrap();
        let job = database.client.insert(Task { n }).await.unwrap();
        let row = database.until_state(job.id(), JobState::Completed).await;
        assert_eq!(row.output, Some(json!(is_stopped)), "{n}");
        runner.stop().await.unwrap();
    }
}

#[support::test]
async fn a_function_can_have_a_retry_policy_of_its_own(database: Database) {
    let work = |_: RunningJob<Task>| async { Err::<(), _>("not yet") };
    let options =
        WorkerOptions::new().retry_policy(RetryPolicy::custom(|attempt| Duration::from_secs(100 * u64::from(attempt))));
    database.start(quick(&database.client).worker_with(work, options)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    for attempt in [1_u16, 2] {
        let row = database.until_state(job.id(), JobState::Retryable).await;
        let wait = (row.scheduled_at - row.errors.last().unwrap().at).as_seconds_f64();
        assert!((wait - 100.0 * f64::from(attempt)).abs() < 1.0, "{wait}");
        if attempt == 1 {
            database.client.retry([job.id()]).await.unwrap();
            eventually!(database.client.job(job.id()).await.unwrap().unwrap().errors.len() >= 2);
        }
    }
}

/// Shows the sources of what it wraps, and hides its type.
#[derive(Debug)]
struct Opaque(BoxError);

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Opaque {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

#[support::test]
async fn a_permanent_error_discards_at_once_however_it_is_wrapped(database: Database) {
    fn permanent(error: impl Into<BoxError>) -> JobError {
        JobError::new(error).permanent()
    }
    fn fail(n: u32) -> Result<(), BoxError> {
        match n {
            0 => Err(permanent("no such account"))?,
            1 => "seven".parse::<u32>().map(|_| ()).map_err(permanent)?,
            2 => Err(Opaque(permanent("no such account").into()))?,
            3 => Err(Opaque(Opaque(permanent(std::io::Error::other("no such account")).into()).into()))?,
            _ => Err("try again")?,
        }
        Ok(())
    }
    let work = |job: RunningJob<Task>| async move { fail(job.args.n) };
    database.start(quick(&database.client).retry_policy(RetryPolicy::fixed(LONG)).worker(work)).await;
    for n in 0..4 {
        let job = database.client.insert(Task { n }).await.unwrap();
        let row = database.until_state(job.id(), JobState::Discarded).await;
        let expected = if n == 1 { "invalid digit found in string" } else { "no such account" };
        assert_eq!((row.attempt, row.errors.len(), row.errors[0].error.as_str()), (1, 1, expected));
    }
    let job = database.client.insert(Task { n: 4 }).await.unwrap();
    database.until_state(job.id(), JobState::Retryable).await;
}

#[support::test]
async fn a_panic_keeps_its_place_wherever_in_the_worker_it_is(database: Database) {
    struct Clumsy;
    impl Worker<Task> for Clumsy {
        async fn work(&self, job: RunningJob<Task>) -> Result<Outcome, BoxError> {
            tokio::task::yield_now().await;
            if job.args.n == 1 {
                // A task of the worker's own: what it does is its own affair, until it is asked.
                let task = tokio::spawn(async { panic!("elsewhere") });
                std::panic::resume_unwind(task.await.unwrap_err().into_panic());
            }
            panic!("in the work");
        }
        fn timeout(&self, job: &RunningJob<Task>) -> Option<Duration> {
            assert!(job.args.n != 2, "in the timeout");
            None
        }
    }
    database.start(quick(&database.client).worker(Clumsy)).await;
    let here = "panicked at tests/runner/failures.rs:";
    for (n, place, message) in
        [(0, here, ": in the work"), (1, "panicked", ": elsewhere"), (2, here, ": in the timeout")]
    {
        let job = database.client.insert(Task { n }).max_attempts(1).await.unwrap();
        let row = database.until_state(job.id(), JobState::Discarded).await;
        let error = &row.errors[0].error;
        assert!(error.starts_with(place) && error.ends_with(message), "{error}");
        assert_eq!(error == "panicked: elsewhere", n == 1, "{error}");
    }
}

#[support::test]
async fn an_error_of_the_database_is_told_in_its_words_and_once(database: Database) {
    let pool = database.pool().clone();
    let work = move |job: RunningJob<Task>| {
        let pool = pool.clone();
        async move {
            let error = sqlx::query("SELECT 1 / 0").execute(&pool).await.unwrap_err();
            let error: BoxError = if job.args.n == 0 { error.into() } else { uniqueue::Error::from(error).into() };
            Err::<(), _>(error)
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    for n in [0, 1] {
        let job = database.client.insert(Task { n }).max_attempts(1).await.unwrap();
        let row = database.until_state(job.id(), JobState::Discarded).await;
        assert_eq!(row.errors[0].error, "error returned from database: division by zero", "{n}");
    }
}

#[support::test]
async fn long_errors_and_reasons_are_kept_up_to_a_limit(database: Database) {
    let work = |job: RunningJob<Task>| async move {
        let long = "x".repeat(1024 * 1024);
        match job.args.n {
            0 => Err(BoxError::from(long)),
            1 => Ok(Outcome::discard(long)),
            2 => Ok(Outcome::cancel(long)),
            3 => Err(JobError::new(long).permanent().into()),
            _ => panic!("{long}"),
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    for n in 0..5 {
        let job = database.client.insert(Task { n }).max_attempts(1).await.unwrap();
        let state = if n == 2 { JobState::Cancelled } else { JobState::Discarded };
        let row = database.until_state(job.id(), state).await;
        let text = &row.errors[0].error;
        assert!((16 * 1024..17 * 1024).contains(&text.len()), "{n}: {}", text.len());
        assert!(text.ends_with(" bytes)") && text.contains("… (cut: 10"), "{n}: {}", &text[text.len() - 40..]);
    }
}
