//! Events of jobs whose workers complete them in transactions of their own.

use support::prelude::*;

/// What is told of a job's end.
pub(super) async fn end(events: &mut Events, id: JobId) -> Happened {
    loop {
        let event = timeout(WAIT, events.recv()).await.expect("an event").expect("the client lives");
        match event.happened {
            happened @ (Happened::Completed | Happened::Stale | Happened::GivenBack) if event.id == id => {
                return happened;
            }
            _ => {}
        }
    }
}

#[support::test]
async fn what_was_rolled_back_and_then_cancelled_is_not_told_as_completed(database: Database) {
    let mut events = database.client.events();
    let work = |job: RunningJob<Task>| async move {
        let mut tx = job.client().pool().begin().await?;
        job.complete_in(&mut tx).await?;
        tx.rollback().await?;
        job.client().cancel(job.id()).await?;
        Ok::<_, BoxError>(())
    };
    database.start(quick(&database.client).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    assert_eq!(end(&mut events, job.id()).await, Happened::Stale);
}

#[support::test]
async fn what_was_committed_before_the_lease_was_lost_is_told_as_completed(database: Database) {
    let mut events = database.client.events();
    static COMMITTED: Notify = Notify::const_new();
    let work = async |job: RunningJob<Task>| {
        let mut tx = job.client().pool().begin().await?;
        job.complete_in(&mut tx).await?;
        tx.commit().await?;
        COMMITTED.notify_one();
        std::future::pending::<()>().await;
        Ok::<_, BoxError>(())
    };
    database.start(quick(&database.client).lease(Duration::from_secs(1)).worker(work)).await;
    let job = database.client.insert(Task { n: 1 }).await.unwrap();
    timeout(WAIT, COMMITTED.notified()).await.unwrap();
    database.end_leases().await;
    assert_eq!(end(&mut events, job.id()).await, Happened::Completed);
}

#[support::test]
async fn a_failure_after_a_completion_that_rolls_back_is_recorded(database: Database) {
    let work = |job: RunningJob<Task>| async move {
        let mut tx = job.client().pool().begin().await?;
        job.complete_in(&mut tx).await?;
        match job.args.n {
            1 => Err("after the completion".into()),
            2 => panic!("after the completion"),
            _ => {
                tx.commit().await?;
                Err::<(), BoxError>("after the commit".into())
            }
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    for (n, state) in [(1, JobState::Discarded), (2, JobState::Discarded), (3, JobState::Completed)] {
        let job = database.client.insert(NewJob::from(Task { n }).max_attempts(1)).await.unwrap();
        let row = database.client.wait(job.id()).timeout(WAIT).await.unwrap().job().unwrap().clone();
        assert_eq!((row.state, row.crashes), (state, 0), "{row:?}");
        assert_eq!(row.errors.iter().any(|error| error.error.contains("after the completion")), n < 3, "{row:?}");
    }
}
