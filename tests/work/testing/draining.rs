//! Draining queues.

use uniqueue::WorkerOptions;
use uniqueue::testing::{self, Database};

use super::Task;
use support::prelude::*;

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "other", queue = "second")]
struct Other {
    n: u32,
}

fn runner(client: &Client) -> Runner {
    Runner::new(client.clone()).queue("default", 5).queue("second", 5)
}

#[support::test]
async fn jobs_are_worked_one_after_another_in_the_order_of_work_over_all_queues(database: testing::Database) {
    let client = database.client();
    let order: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (first, second) = (order.clone(), order.clone());
    let task = move |job: RunningJob<Task>| {
        let order = first.clone();
        async move {
            // Inserted meanwhile, and more urgent than what waits.
            if job.args.n == 2 {
                job.client().insert(Task { n: 20 }).priority(9).await?;
            }
            tokio::task::yield_now().await;
            order.lock().unwrap().push(job.args.n);
            Ok::<_, BoxError>(())
        }
    };
    let other = move |job: RunningJob<Other>| {
        second.lock().unwrap().push(job.args.n);
        async {}
    };
    client.insert(Task { n: 3 }).await.unwrap();
    client.insert(Other { n: 4 }).await.unwrap();
    client.insert(Task { n: 5 }).await.unwrap();
    client.insert(Other { n: 1 }).priority(5).await.unwrap();
    client.insert(Task { n: 2 }).priority(3).await.unwrap();
    client.insert(Task { n: 6 }).queue("unworked").await.unwrap();
    client.insert(NewJob::new("unknown", &serde_json::json!({}))).await.unwrap();
    client.insert(Task { n: 7 }).scheduled_in(MINUTE).await.unwrap();

    let drained = testing::drain(runner(client).worker(task).worker(other)).await.unwrap();
    assert_eq!(*order.lock().unwrap(), [1, 2, 20, 3, 4, 5]);
    assert_eq!((drained.jobs().len(), drained.completed()), (6, 6));
    assert_eq!(
        drained.of::<Other>().map(|worked| worked.job.args_as::<Other>().unwrap().n).collect::<Vec<_>>(),
        [1, 4]
    );
    assert!(drained.jobs().iter().all(|worked| worked.job.state == JobState::Completed));
    // Nothing of it stays.
    let runners: i64 =
        sqlx::query_scalar("SELECT count(*) FROM uniqueue.runner").fetch_one(database.pool()).await.unwrap();
    assert_eq!(runners, 0);
}

#[support::test]
async fn each_end_of_an_attempt_is_told_with_its_job_as_it_was_left(database: testing::Database, client: &Client) {
    let work = |job: RunningJob<Task>| async move {
        Ok(match job.args.n {
            0 => Outcome::complete_with("done")?,
            1 => return Err::<_, BoxError>("no luck".into()),
            2 => Outcome::snooze(Duration::from_secs(9)),
            3 => Outcome::cancel("unwanted"),
            4 => Outcome::discard("hopeless"),
            5 => {
                job.client().cancel([job.id()]).await?;
                Outcome::complete()
            }
            6 => {
                let mut tx = job.client().pool().begin().await?;
                job.complete_in(&mut tx).await?;
                tx.commit().await?;
                Outcome::complete()
            }
            n => panic!("unlucky {n}"),
        })
    };
    client.insert_many((0..8).map(|n| Task { n })).await.unwrap();
    let drained = testing::drain(runner(client).worker(work)).await.unwrap();
    let found: Vec<_> = (drained.jobs().iter())
        .map(|worked| (worked.happened.as_str(), worked.job.state, worked.error().map(str::to_owned)))
        .collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(found[0], ("completed", JobState::Completed, None));
    assert_eq!(found[1], ("retried", JobState::Retryable, some("no luck")));
    assert_eq!(found[2], ("snoozed", JobState::Scheduled, None));
    assert_eq!(found[3], ("cancelled", JobState::Cancelled, some("unwanted")));
    assert_eq!(found[4], ("discarded", JobState::Discarded, some("hopeless")));
    assert_eq!((found[5].0, found[5].1), ("stale", JobState::Cancelled));
    assert_eq!(found[6], ("completed", JobState::Completed, None));
    assert_eq!((found[7].0, found[7].1), ("retried", JobState::Retryable));
    assert!(found[7].2.as_ref().unwrap().starts_with("panicked"), "{:?}", found[7]);
    assert_eq!((drained.completed(), drained.failed(), drained.snoozed()), (2, 3, 1));
    assert_eq!((drained.cancelled(), drained.discarded()), (1, 1));
    assert_eq!(drained.jobs()[2].attempt, 1);
    assert_eq!(drained.jobs()[2].job.attempt, 0);
}

#[support::test]
async fn failed_jobs_are_retried_only_when_told_and_until_they_are_over(database: testing::Database, client: &Client) {
    let work = |job: RunningJob<Task>| async move {
        if job.args.n == 1 && job.attempt() == 2 { Ok(()) } else { Err(format!("no luck {}", job.attempt())) }
    };
    client.insert_many((1..3).map(|n| Task { n })).await.unwrap();
    let build = || runner(client).retry_policy(RetryPolicy::fixed(MINUTE)).worker(work);
    let drained = testing::drain(build()).await.unwrap();
    assert_eq!((drained.jobs().len(), drained.failed()), (2, 2));
    assert_eq!(testing::drain(build()).await.unwrap().jobs().len(), 0);
    database.advance(MINUTE).await.unwrap();
    let drained = testing::drain(build().worker(|_: RunningJob<Other>| async {})).retrying().await.unwrap();
    assert_eq!((drained.completed(), drained.failed(), drained.discarded()), (1, 2, 1));
    assert!(matches!(&drained.jobs().last().unwrap().happened, Happened::Discarded { .. }));
}

#[support::test]
async fn a_paused_queue_is_left_alone_and_the_others_are_worked(database: testing::Database, client: &Client) {
    sqlx::query("INSERT INTO uniqueue.queue (name, paused_at) VALUES ('default', now())")
        .execute(database.pool())
        .await
        .unwrap();
    client.insert(Task { n: 1 }).priority(1).await.unwrap();
    client.insert(Other { n: 2 }).await.unwrap();
    let build = || runner(client).worker(|_: RunningJob<Task>| async {}).worker(|_: RunningJob<Other>| async {});
    let drained = testing::drain(build()).await.unwrap();
    assert_eq!((drained.jobs().len(), drained.of::<Other>().count()), (1, 1));
}

#[support::test]
async fn a_job_that_is_discarded_at_its_start_does_not_end_the_drain(database: testing::Database, client: &Client) {
    // It claims its key while running only, and comes to nothing when another job has it by then.
    let only_running = || {
        let states = uniqueue::StateSet::of(&[JobState::Running]);
        UniqueKey::raw("k").states(states).on_reentry(uniqueue::OnReentry::Discard)
    };
    client.insert(Task { n: 1 }).unique_key(UniqueKey::raw("k")).queue("unworked").await.unwrap();
    for n in 2..5 {
        client.insert(Task { n }).unique_key(only_running()).not_unique().await.unwrap();
    }
    sqlx::query(
        "UPDATE uniqueue.job SET unique_key = 'k', unique_states = 64, discard_on_reentry = true
         WHERE args <> '{\"n\": 1}' AND args <> '{\"n\": 4}'",
    )
    .execute(database.pool())
    .await
    .unwrap();
    let drained = testing::drain(runner(client).worker(|_: RunningJob<Task>| async {})).await.unwrap();
    assert_eq!(drained.jobs().len(), 1);
    assert_eq!(drained.jobs()[0].job.args_as::<Task>().unwrap().n, 4);
}

#[support::test]
async fn a_drain_keeps_to_rates_and_holds_and_advance_lets_their_time_pass(database: testing::Database) {
    let client = database.client();
    client.queue("default").set(QueueChanges::new().rate(Some(Rate::per(2, MINUTE)))).await.unwrap();
    for n in 0..5 {
        client.insert(Task { n }).await.unwrap();
    }
    let hold = |job: RunningJob<Task>| async move {
        if job.args.n == 3 && job.row().meta.is_empty() && job.row().run == 1 {
            return Outcome::hold_queue(Duration::from_secs(600));
        }
        Outcome::complete()
    };
    let build = || runner(client).worker(hold);
    assert_eq!(testing::drain(build()).await.unwrap().completed(), 2);
    database.advance(MINUTE).await.unwrap();
    let drained = testing::drain(build()).await.unwrap();
    assert_eq!((drained.completed(), drained.snoozed()), (1, 1));
    assert!(client.queue("default").settings().await.unwrap().held_until.is_some());
    database.advance(MINUTE).await.unwrap();
    assert_eq!(testing::drain(build()).await.unwrap().jobs().len(), 0, "the queue is held");
    database.advance(Duration::from_secs(600)).await.unwrap();
    assert_eq!(testing::drain(build()).await.unwrap().completed(), 2);
    let outcome = testing::work(hold, Task { n: 3 }).await.unwrap();
    assert_eq!(outcome, Outcome::hold_queue(Duration::from_secs(600)));
}

#[support::test]
async fn a_drain_without_end_panics_at_its_limit(database: testing::Database) {
    database.client().insert(Task { n: 1 }).await.unwrap();
    let again = |_: RunningJob<Task>| async { Outcome::snooze(Duration::ZERO) };
    let drain = testing::drain(runner(database.client()).worker(again)).limit(3);
    let panic = tokio::spawn(async move { drop(drain.await) }).await.unwrap_err().into_panic();
    let message = panic.downcast::<String>().unwrap();
    assert!(message.starts_with("the queues are not empty after 3 attempts"), "{message}");
}

#[support::test]
async fn the_runners_periodic_jobs_are_defined_and_advance_runs_their_slots(database: testing::Database) {
    let with = |periodic| runner(database.client()).worker(|_: RunningJob<Task>| async {}).periodic(periodic);
    let build = || with(PeriodicJob::every("hourly", HOUR, Task { n: 1 }));
    assert_eq!(testing::drain(build()).await.unwrap().jobs().len(), 0);
    let advanced = database.advance(3 * HOUR).await.unwrap();
    // Should an hour end between two looks at the clock, its slot is run besides.
    assert!((3..=4).contains(&advanced.periodic), "{advanced:?}");
    assert_eq!(testing::drain(build()).await.unwrap().completed() as u64, advanced.periodic);

    let error = testing::drain(with(PeriodicJob::cron("a", "every morning", Task { n: 1 }))).await.unwrap_err();
    assert!(error.to_string().starts_with("invalid schedule"), "{error}");
    let error = testing::drain(build().periodic(PeriodicJob::every("hourly", HOUR, Task { n: 2 }))).await.unwrap_err();
    assert!(error.to_string().contains("given twice: hourly"), "{error}");
}

#[support::test]
async fn a_batch_worker_gets_the_available_jobs_of_its_kind_at_once(database: testing::Database, client: &Client) {
    static SIZES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let batch = |jobs: Vec<RunningJob<Task>>| {
        SIZES.lock().unwrap().push(jobs.len());
        let result = |job: &RunningJob<Task>| if job.args.n == 1 { Err("one") } else { Ok(()) };
        std::future::ready(jobs.iter().map(result).collect::<Vec<_>>())
    };
    client.insert_many((0..5).map(|n| Task { n })).await.unwrap();
    client.insert(Other { n: 9 }).await.unwrap();
    // A job that waits for more jobs of its batch would wait for an hour.
    let options = WorkerOptions::new().batch_size(3).batch_wait(HOUR);
    let draining = testing::drain(runner(client).batch_worker(batch, options).worker(async |_: RunningJob<Other>| {}));
    let drained = draining.await.unwrap();
    assert_eq!(*SIZES.lock().unwrap(), [3, 2]);
    assert_eq!((drained.jobs().len(), drained.completed(), drained.failed()), (6, 5, 1));
    let failed = drained.jobs().iter().find(|worked| worked.error() == Some("one")).unwrap();
    assert_eq!(failed.job.args_as::<Task>().unwrap().n, 1);
}

#[tokio::test]
async fn a_batch_worker_runs_inline_and_a_wrong_number_of_results_is_its_error() {
    let export = async |jobs: Vec<RunningJob<Task>>| {
        let sum: u32 = jobs.iter().map(|job| job.args.n).sum();
        vec![Ok(Outcome::complete_with(sum).unwrap()), Err(BoxError::from("no"))]
    };
    let results = testing::work_batch(export, (2..=3).map(|n| Task { n })).await.unwrap();
    assert_eq!(*results[0].as_ref().unwrap(), Outcome::complete_with(5).unwrap());
    assert_eq!(results[1].as_ref().unwrap_err().to_string(), "no");
    let error = testing::work_batch(export, (1..=3).map(|n| Task { n })).await.unwrap_err();
    assert!(error.to_string().contains("2 results for 3 jobs"), "{error}");

    let database = Database::new().await.unwrap();
    let work = async |jobs: Vec<RunningJob<Task>>| {
        for job in &jobs {
            let mut connection = job.client().pool().acquire().await?;
            job.complete_in(&mut connection).await?;
        }
        Ok::<_, BoxError>(())
    };
    testing::work_batch(work, [Task { n: 1 }, Task { n: 2 }]).database(&database).await.unwrap();
    uniqueue::assert_inserted!(database, Task, state = JobState::Completed, count = 2);
    let failing = async |_: Vec<RunningJob<Task>>| Err::<(), _>("all of them");
    assert_eq!(testing::work_batch(failing, [Task { n: 1 }]).await.unwrap_err().to_string(), "all of them");
    let panicking = async |jobs: Vec<RunningJob<Task>>| assert!(jobs.is_empty(), "oh");
    let failure = testing::work_batch(panicking, [Task { n: 1 }]).await.unwrap_err();
    assert!(matches!(failure, testing::Failure::Panic(_)), "{failure}");
}

#[support::test]
async fn the_jobs_of_a_graph_are_drained_one_after_another(database: testing::Database, client: &Client) {
    let first = NewJob::from(Task { n: 1 });
    let second = NewJob::from(Task { n: 2 }).after(&first);
    let alarm = NewJob::from(Task { n: 3 }).after_failed(&second);
    let last = NewJob::from(Task { n: 4 }).after_final(&alarm);
    client.insert_many([first, second, alarm, last]).await.unwrap();
    let drained = testing::drain(runner(client).worker(async |_: RunningJob<Task>| {})).await.unwrap();
    let worked: Vec<_> = drained.jobs().iter().map(|worked| worked.job.args_as::<Task>().unwrap().n).collect();
    assert_eq!(worked, [1, 2, 4]);
    uniqueue::assert_inserted!(database, Task, args = {"n": 3}, state = JobState::Cancelled);
}

#[support::test]
async fn a_job_expires_when_its_time_has_passed(database: testing::Database, client: &Client) {
    client.insert(Task { n: 1 }).expires_in(HOUR).await.unwrap();
    client.insert(Task { n: 2 }).scheduled_in(HOUR).expires_in(HOUR).await.unwrap();
    let advanced = database.advance(HOUR + Duration::from_secs(1)).await.unwrap();
    assert_eq!((advanced.expired, advanced.promoted), (1, 1));
    let drained = testing::drain(runner(client).worker(async |_: RunningJob<Task>| {})).await.unwrap();
    assert_eq!(drained.jobs()[0].job.args_as::<Task>().unwrap().n, 2);
}
