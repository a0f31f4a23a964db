//! Typed state: the runner holds it, and workers read it from their job.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use uniqueue::{AnyJob, BoxError, Error, JobState, Middleware, Needs, Next, Outcome, RunningJob, Worker};

use super::{Task, quick, until};
use support::Database;

#[derive(Debug)]
struct Greeting(&'static str);

#[support::test]
async fn workers_reach_the_runners_values_by_their_types(database: Database) {
    let runs = Arc::new(AtomicU32::new(0));
    let work = |job: RunningJob<Task>| async move {
        let greeting: &Greeting = job.state()?;
        job.state::<Arc<AtomicU32>>()?.fetch_add(job.args.n, Ordering::SeqCst);
        Ok::<_, BoxError>(Outcome::complete_with(greeting.0)?)
    };
    let runner = quick(&database.client).state(Greeting("hello")).state(runs.clone()).worker(work);
    let runner = runner.start().await.unwrap();
    let job = database.client.insert(Task { n: 7 }).await.unwrap();
    let row = until(&database, job.id(), JobState::Completed).await;
    assert_eq!((row.output, runs.load(Ordering::SeqCst)), (Some("hello".into()), 7));
    runner.stop().await.unwrap();
}

#[support::test]
async fn state_that_is_missing_is_a_failure_that_names_the_type_and_the_remedy(database: Database) {
    let work = |job: RunningJob<Task>| async move {
        let error = job.state::<Greeting>().unwrap_err();
        assert!(matches!(error, Error::MissingState { .. }));
        Err::<(), _>(error)
    };
    let runner = quick(&database.client).state(7_u8).worker(work).start().await.unwrap();
    let job = database.client.insert(Task { n: 1 }).max_attempts(1).await.unwrap();
    let row = until(&database, job.id(), JobState::Discarded).await;
    let said = &row.errors[0].error;
    assert!(said.contains("Greeting") && said.contains("Runner::state") && said.contains("given u8"), "{said}");
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn a_runner_without_what_its_workers_need_does_not_start() {
    struct Greeter;
    impl Worker<Task> for Greeter {
        async fn work(&self, job: RunningJob<Task>) -> Result<Outcome, BoxError> {
            job.state::<Greeting>()?;
            Ok(Outcome::complete())
        }
        fn needs(&self) -> Needs {
            Needs::new().state::<Greeting>()
        }
    }
    struct Counted;
    impl Middleware for Counted {
        async fn call(&self, _: AnyJob, next: Next) -> Result<Outcome, BoxError> {
            next.run().await
        }
        fn needs(&self) -> Needs {
            Needs::new().state::<AtomicU32>()
        }
    }
    let database = Database::new().await;
    let new = || quick(&database.client);
    for (runner, said) in [
        (new().worker(Greeter), "\"task\" needs state that is missing: runner::states::"),
        (new().worker(|_: RunningJob<Task>| async {}).middleware(Counted), "middleware needs state that is missing"),
        (new().worker(Greeter).state(Greeting("a")).state(Greeting("b")), "one type: runner::states::"),
    ] {
        let error = runner.start().await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let whole = new().worker(Greeter).middleware(Counted).state(Greeting("a")).state(AtomicU32::new(0));
    whole.start().await.unwrap().stop().await.unwrap();
}
