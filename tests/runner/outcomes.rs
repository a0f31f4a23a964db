//! The outcomes that a worker can return, and their effect on the job. Workers read typed state from their job.

use uniqueue::{AnyJob, Middleware, Needs, Next};

use support::prelude::*;

#[support::test]
async fn a_function_and_a_type_can_be_workers(database: Database) {
    struct Doubler {
        times: u32,
    }

    #[derive(Debug, serde::Deserialize, serde::Serialize, uniqueue::Job)]
    #[job(kind = "double")]
    struct Double {
        n: u32,
    }

    impl Worker<Double> for Doubler {
        async fn work(&self, job: RunningJob<Double>) -> Result<Outcome, BoxError> {
            Ok(Outcome::complete_with(job.args.n * self.times)?)
        }
    }

    async fn task(job: RunningJob<Task>) -> Result<(), std::io::Error> {
        assert_eq!(job.args.n, 7);
        assert_eq!(job.attempt(), 1);
        Ok(())
    }

    let runner = quick(&database.client).worker(Doubler { times: 2 }).worker(task).start().await.unwrap();
    let double = database.client.insert(Double { n: 21 }).await.unwrap();
    let plain = database.client.insert(Task { n: 7 }).await.unwrap();
    let done = database.until_state(double.id(), JobState::Completed).await;
    assert_eq!(done.output, Some(json!(42)));
    let done = database.until_state(plain.id(), JobState::Completed).await;
    assert_eq!((done.output, done.attempt, done.worker), (None, 1, Some(runner.id())));
    assert!(done.errors.is_empty() && done.finalized_at.is_some() && done.attempted_at.is_some());
    runner.stop().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner").await, 0);
}

#[support::test]
async fn a_retry_waits_in_state_retryable_by_the_workers_own_policy(database: Database) {
    struct Slow;
    impl Worker<Task> for Slow {
        async fn work(&self, _: RunningJob<Task>) -> Result<Outcome, BoxError> {
            Err("not yet".into())
        }
        fn retry_policy(&self) -> Option<RetryPolicy> {
            Some(RetryPolicy::fixed(Duration::from_secs(100)))
        }
    }
    database.start(quick(&database.client).worker(Slow)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    let row = database.until_state(job.id(), JobState::Retryable).await;
    let wait = row.scheduled_at - row.errors[0].at;
    assert!((wait.as_seconds_f64() - 100.0).abs() < 1.0, "{wait}");
}

#[support::test]
async fn cancel_discard_and_retry_are_outcomes_with_reasons(database: Database) {
    let work = |job: RunningJob<Task>| async move {
        match job.args.n {
            0 => Outcome::cancel("not wanted"),
            1 => Outcome::discard("hopeless"),
            _ => Outcome::retry(Duration::from_secs(50), "later"),
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    for (n, state, reason) in [
        (0, JobState::Cancelled, "not wanted"),
        (1, JobState::Discarded, "hopeless"),
        (2, JobState::Retryable, "later"),
    ] {
        let job = database.client.insert(Task { n }).await.unwrap();
        let row = database.until_state(job.id(), state).await;
        assert_eq!(row.errors[0].error, reason);
    }
}

#[support::test]
async fn results_that_cannot_be_stored_end_the_job_and_hold_up_nobody(database: Database) {
    let work = |job: RunningJob<Task>| async move {
        match job.args.n {
            0 => Ok(Outcome::complete_with("nul \0 inside").unwrap()),
            1 => Err("error with nul \0 inside"),
            _ => Ok(Outcome::complete()),
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    let jobs = (0..3).map(|n| NewJob::from(Task { n }).max_attempts(2));
    let answers = database.client.insert_many(jobs).await.unwrap();
    let row = database.until_state(answers[0].id(), JobState::Discarded).await;
    assert_eq!(row.errors.len(), 2, "as any failure, it is retried");
    assert!(row.errors[0].error.contains("could not be stored"), "{:?}", row.errors);
    database.until_state(answers[2].id(), JobState::Completed).await;
}

#[support::test]
async fn large_outputs_are_recorded_by_a_few_statements_of_some_megabytes_each(database: Database) {
    const JOBS: u32 = 40;
    const SIZE: usize = 1_000_000;
    static GATE: Gate = Gate::closed();
    let work = async |_: RunningJob<Task>| {
        GATE.pass().await;
        Outcome::Complete { output: Some("x".repeat(SIZE).into()) }
    };
    database.client.insert_many((0..JOBS).map(|n| Task { n })).await.unwrap();
    let running = async {
        let runner = database.runner().queue("default", JOBS as usize).worker(work).start().await.unwrap();
        GATE.begun(JOBS).await;
        GATE.open(JOBS as usize);
        let stored = format!("SELECT count(*) FROM {{schema}}.job WHERE length(output #>> '{{}}') = {SIZE}");
        database.until(&stored, JOBS.into()).await;
        runner.stop().await.unwrap();
    };
    let ((), statements) = statements_of(running).await;
    let sent = statements.iter().filter(|statement| statement.contains("Ends runs")).count();
    assert!((3..10).contains(&sent), "{sent}");
}

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
    database.start(quick(&database.client).state(Greeting("hello")).state(runs.clone()).worker(work)).await;
    let job = database.client.insert(Task { n: 7 }).await.unwrap();
    let row = database.until_state(job.id(), JobState::Completed).await;
    assert_eq!((row.output, runs.load(Ordering::SeqCst)), (Some("hello".into()), 7));
}

#[support::test]
async fn state_that_is_missing_is_a_failure_that_names_the_type_and_the_remedy(database: Database) {
    let work = |job: RunningJob<Task>| async move {
        let error = job.state::<Greeting>().unwrap_err();
        assert!(matches!(error, Error::MissingState { .. }));
        Err::<(), _>(error)
    };
    database.start(quick(&database.client).state(7_u8).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).max_attempts(1).await.unwrap();
    let row = database.until_state(job.id(), JobState::Discarded).await;
    let said = &row.errors[0].error;
    assert!(said.contains("Greeting") && said.contains("Runner::state") && said.contains("given u8"), "{said}");
}

#[support::test]
async fn a_runner_without_what_its_workers_need_does_not_start(database: Database) {
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
    let new = || quick(&database.client);
    for (runner, said) in [
        (new().worker(Greeter), "\"task\" needs state that is missing: runner::outcomes::"),
        (new().worker(at_once).middleware(Counted), "middleware needs state that is missing"),
        (new().worker(Greeter).state(Greeting("a")).state(Greeting("b")), "one type: runner::outcomes::"),
    ] {
        let error = runner.start().await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let whole = new().worker(Greeter).middleware(Counted).state(Greeting("a")).state(AtomicU32::new(0));
    whole.start().await.unwrap().stop().await.unwrap();
}
