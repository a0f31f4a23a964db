//! Running one worker inline.

use uniqueue::testing::{self, Failure};
use uniqueue::{assert_inserted, assert_not_duplicate};

use super::Task;
use support::prelude::*;

#[tokio::test]
async fn the_worker_sees_the_context_that_the_test_makes_up() {
    let id = uniqueue::JobId::generate();
    let work = move |job: RunningJob<Task>| async move {
        let row = job.row();
        assert_eq!((job.id(), job.args.n, job.attempt()), (id, 7, 3));
        assert_eq!((row.queue.as_str(), row.priority, row.max_attempts, row.state), ("out", 4, 9, JobState::Running));
        assert_eq!((&row.meta["tenant"], row.kind.as_str()), (&json!("acme"), "task"));
        let errors: Vec<_> = row.errors.iter().map(|error| (error.attempt, error.error.as_str())).collect();
        assert_eq!(errors, [(1, "first"), (2, "second")]);
        Outcome::complete_with(job.args.n)
    };
    let said = testing::work(work, Task { n: 7 })
        .id(id)
        .attempt(3)
        .queue("out")
        .priority(4)
        .max_attempts(9)
        .meta("tenant", "acme")
        .failed_before("first")
        .failed_before("second")
        .await;
    assert_eq!(said.unwrap(), Outcome::complete_with(7).unwrap());
}

#[tokio::test]
async fn outcomes_errors_and_panics_are_told_apart() {
    struct Odd;
    impl Worker<Task> for Odd {
        async fn work(&self, job: RunningJob<Task>) -> Result<Outcome, BoxError> {
            tokio::task::yield_now().await;
            match job.args.n {
                0 => Ok(Outcome::snooze(Duration::from_secs(5))),
                1 => Err(Box::new(std::io::Error::other("broken"))),
                n => panic!("unlucky {n}"),
            }
        }
    }
    assert_eq!(testing::work(Odd, Task { n: 0 }).await.unwrap(), Outcome::snooze(Duration::from_secs(5)));
    let failure = testing::work(Odd, Task { n: 1 }).await.unwrap_err();
    let Failure::Error(error) = failure else { panic!("{failure:?}") };
    assert_eq!(error.downcast_ref::<std::io::Error>().unwrap().to_string(), "broken");
    let failure = testing::work(Odd, Task { n: 13 }).await.unwrap_err();
    assert!(matches!(&failure, Failure::Panic(text) if *text == failure.to_string()), "{failure:?}");
    let text = failure.to_string();
    assert!(text.starts_with("panicked at tests/work/testing/inline.rs:") && text.ends_with(": unlucky 13"), "{text}");
}

#[tokio::test]
async fn the_worker_finds_the_state_it_was_given_and_no_other() {
    let work = |job: RunningJob<Task>| async move {
        let greeting = job.state::<String>()?.clone();
        assert!(matches!(job.state::<u8>(), Err(Error::MissingState { .. })));
        Ok::<_, BoxError>(Outcome::complete_with(greeting)?)
    };
    let said = testing::work(work, Task { n: 0 }).state(String::from("hello")).await;
    assert_eq!(said.unwrap(), Outcome::complete_with("hello").unwrap());
    assert!(testing::work(work, Task { n: 0 }).await.unwrap_err().to_string().contains("String"));
}

#[tokio::test]
async fn work_can_be_told_to_stop_from_its_beginning() {
    let work = |job: RunningJob<Task>| async move {
        tokio::select! {
            reason = job.stopped() => Outcome::discard(format!("{reason:?}")),
            () = std::future::pending() => Outcome::complete(),
        }
    };
    let said = testing::work(work, Task { n: 0 }).stopped(StopReason::Cancelled).await;
    assert_eq!(said.unwrap(), Outcome::discard("Cancelled"));
}

#[tokio::test]
async fn without_a_database_only_the_use_of_one_fails_and_at_once() {
    let work = |job: RunningJob<Task>| async move { job.client().insert(Task { n: 1 }).await.map(drop) };
    let started = std::time::Instant::now();
    let failure = testing::work(work, Task { n: 0 }).await.unwrap_err();
    let Failure::Error(error) = failure else { panic!("{failure:?}") };
    assert!(matches!(error.downcast_ref(), Some(Error::Database(_))), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[support::test]
async fn with_a_database_the_job_is_running_there_and_complete_in_counts(database: testing::Database) {
    let work = |job: RunningJob<Task>| async move {
        assert_inserted!(job.client(), Task, state = JobState::Running, id = job.id());
        let mut tx = job.client().pool().begin().await?;
        job.client().insert(NewJob::new("next", &json!({}))).tx(&mut tx).await?;
        job.complete_in(&mut tx).await?;
        // Fenced: it cannot be completed twice.
        assert!(job.complete_in(&mut tx).await.unwrap_err().is_stale());
        tx.commit().await?;
        Ok::<_, BoxError>(())
    };
    testing::work(work, Task { n: 5 }).attempt(2).database(&database).await.unwrap();
    let jobs = assert_inserted!(database, Task, state = JobState::Completed, count = 1);
    assert_eq!(jobs[0].attempt, 2);
    assert_inserted!(database, "next");
}

#[support::test]
async fn with_a_database_a_claim_that_ends_at_the_start_has_ended(database: testing::Database) {
    let policy = || UniquePolicy::new().by_args().until_start();
    let work = move |job: RunningJob<Task>| async move {
        assert!(!job.row().claims);
        // Its own successor.
        assert_not_duplicate!(job.client().insert(Task { n: job.args.n }).unique(policy()).await);
    };
    testing::work(work, Task { n: 5 }).unique(policy()).database(&database).await.unwrap();
    assert_inserted!(database, Task, count = 2);
}
