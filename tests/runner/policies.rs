//! Retry policies and errors that panic: the application's code, asked when the work is over.

use std::error::Error;
use std::fmt;

use support::prelude::*;

const LONG: Duration = HOUR;

/// Knows the wait after the first attempt, and no other.
const SHORT_SIGHTED: RetryPolicy = RetryPolicy::custom(|attempt| [Duration::ZERO][usize::from(attempt) - 1]);

fn runner(database: &Database) -> Runner {
    let interval = Duration::from_millis(20);
    Runner::new(database.client.clone()).queue("default", 10).promote_interval(interval).stop_grace(Duration::ZERO)
}

fn errors(row: &JobRow) -> Vec<&str> {
    row.errors.iter().map(|error| error.error.as_str()).collect()
}

#[tokio::test]
async fn the_default_policy_stands_in_for_one_that_panics() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("dropped");
            }
        }
    }
    let work = |job: RunningJob<Task>| async move {
        if job.args.n == 1 {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        }
        Err::<(), _>("no luck")
    };
    let database = Database::new().await;
    let limit = Duration::from_millis(20);
    let runner = runner(&database).retry_policy(SHORT_SIGHTED).timeout(limit).worker(work).start().await.unwrap();
    for (n, error) in [(0, "no luck"), (1, "panicked while the work was dropped")] {
        let job = database.client.insert(Task { n }).max_attempts(9).await.unwrap();
        let row = database.until_state(job.id(), JobState::Retryable).await;
        assert_eq!((row.attempt, errors(&row)), (2, vec![error; 2]));
        assert!(row.scheduled_at - OffsetDateTime::now_utc() < Duration::from_secs(3), "two seconds, more or less");
    }
    // A row that cannot be read has no worker to ask.
    let job = database.client.insert(Task { n: 2 }).max_attempts(9).pending().await.unwrap();
    let spoil = "UPDATE {schema}.job SET state = 'available', attempt = 1, meta = '{\"n\": 1e400}' WHERE id = ";
    database.execute(&format!("{spoil}'{}'", job.id())).await;
    let state = format!("SELECT state::text FROM {{schema}}.job WHERE id = '{}'", job.id());
    eventually!(database.text(&state).await == "retryable");
    runner.stop().await.unwrap();
}

#[support::test]
async fn the_runners_policy_stands_in_for_a_workers_that_panics(database: Database) {
    struct Undecided;
    impl Worker<Task> for Undecided {
        async fn work(&self, _: RunningJob<Task>) -> Result<Outcome, BoxError> {
            Err("no luck".into())
        }
        fn retry_policy(&self) -> Option<RetryPolicy> {
            panic!("which one?")
        }
    }
    database.start(runner(&database).retry_policy(RetryPolicy::fixed(LONG)).worker(Undecided)).await;
    let job = database.client.insert(Task { n: 0 }).await.unwrap();
    let row = database.until_state(job.id(), JobState::Retryable).await;
    assert_eq!(errors(&row), ["no luck"]);
    assert!(row.scheduled_at - OffsetDateTime::now_utc() > LONG / 2);
}

/// An error that panics wherever it is told to.
#[derive(Debug)]
struct Touchy {
    when: &'static str,
}

impl Touchy {
    fn is(&self, when: &str) {
        if self.when == when {
            panic!("{when}");
        }
    }
}

impl fmt::Display for Touchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.is("shown");
        f.write_str("no luck")
    }
}

impl Error for Touchy {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.is("traced");
        None
    }
}

impl Drop for Touchy {
    fn drop(&mut self) {
        self.is("dropped");
    }
}

#[tokio::test]
async fn an_error_that_panics_ends_its_attempt_as_others_do() {
    let work = |job: RunningJob<Task>| async move {
        match job.args.n {
            0 => Err::<(), BoxError>(Touchy { when: "shown" }.into()),
            1 => Err(Touchy { when: "traced" }.into()),
            2 => Err(Touchy { when: "dropped" }.into()),
            _ => Err(JobError::new(Touchy { when: "shown" }).permanent().into()),
        }
    };
    let database = Database::new().await;
    let runner = runner(&database).retry_policy(RetryPolicy::fixed(LONG)).worker(work).start().await.unwrap();
    for (n, state, start, end) in [
        (0, JobState::Retryable, "failed with an error that cannot be written: panicked at ", ": shown"),
        (1, JobState::Retryable, "failed with an error that cannot be written: panicked at ", ": traced"),
        (2, JobState::Retryable, "no luck", "no luck"),
        (3, JobState::Discarded, "failed with an error that cannot be written: panicked at ", ": shown"),
    ] {
        let job = database.client.insert(Task { n }).await.unwrap();
        let row = database.until_state(job.id(), state).await;
        let [error] = errors(&row)[..] else { panic!("{:?}", row.errors) };
        assert!(error.starts_with(start) && error.ends_with(end), "{error}");
    }
    runner.stop().await.unwrap();
}
