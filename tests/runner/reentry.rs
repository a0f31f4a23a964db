//! R5 and R6 on the runner's paths: a job gives its claim up, and takes it back.

use support::prelude::*;

/// A worker that fails when told to.
fn failing(gate: &'static Gate) -> impl Worker<Task> {
    move |job: RunningJob<Task>| async move {
        gate.pass().await;
        Outcome::retry(HOUR, format!("attempt {}", job.attempt()))
    }
}

#[support::test]
async fn r6_a_retry_goes_on_without_its_claim_when_another_holds_the_key(database: Database) {
    static GATE: Gate = Gate::closed();
    database.start(quick(&database.client).worker(failing(&GATE))).await;
    for (n, on_reentry, state) in
        [(1, OnReentry::GoOn, JobState::Retryable), (2, OnReentry::Discard, JobState::Discarded)]
    {
        let key = || UniqueKey::raw(format!("k{n}")).on_reentry(on_reentry);
        let first = database.client.insert(Task { n }).unique_key(key()).await.unwrap();
        GATE.begun(1).await;
        let second = database.client.insert(job("other").unique_key(key())).await.unwrap();
        assert!(!second.duplicate);
        GATE.open(1);
        let row = database.until_state(first.id(), state).await;
        assert!(!row.claims);
        let last = row.errors.last().unwrap();
        assert_eq!(last.error.contains("re-entry"), on_reentry == OnReentry::Discard, "{last:?}");
        assert_eq!(database.client.holder(&format!("k{n}")).await.unwrap().unwrap().id, second.id());
    }
}

#[support::test]
async fn r6_an_uncommitted_rival_holds_up_no_retry_and_discards_no_job(database: Database) {
    static GATE: Gate = Gate::closed();
    database.start(quick(&database.client).worker(failing(&GATE))).await;
    for (n, on_reentry, commits) in [(1, OnReentry::GoOn, true), (2, OnReentry::Discard, false)] {
        let key = || UniqueKey::raw(format!("k{n}")).on_reentry(on_reentry);
        let first = database.client.insert(Task { n }).unique_key(key()).await.unwrap().id();
        GATE.begun(1).await;
        let mut rival = database.pool().begin().await.unwrap();
        database.client.insert(job("rival").unique_key(key())).tx(&mut rival).await.unwrap();
        GATE.open(1);
        assert!(!database.until_state(first, JobState::Retryable).await.claims);
        support::end(rival, commits).await;
        // The next change of state takes a claim that is free.
        database.client.retry([first]).await.unwrap();
        GATE.begun(1).await;
        GATE.open(1);
        let row = database.until_state(first, JobState::Retryable).await;
        assert_eq!((row.attempt, row.claims), (2, !commits));
    }
}

#[support::test]
async fn r6_an_open_insert_that_released_an_expired_claim_holds_up_no_other_result(database: Database) {
    static GATE: Gate = Gate::closed();
    let work = async |job: RunningJob<Task>| {
        if job.args.n == 1 {
            GATE.pass().await;
        }
    };
    database.start(quick(&database.client).worker(work)).await;
    let key = || UniqueKey::raw("k").scope(UniqueScope::Active).period(MINUTE);
    let holder = database.client.insert(Task { n: 1 }).unique_key(key()).await.unwrap();
    GATE.begun(1).await;
    database.pass(MINUTE).await;
    let mut open = database.pool().begin().await.unwrap();
    let next = database.client.insert(job("next").unique_key(key())).tx(&mut open).await.unwrap();
    assert!(!next.duplicate);
    // The holder's row is locked until that transaction ends. It ends now, together with others.
    let others = database.client.insert_many((2..50).map(|n| Task { n })).await.unwrap();
    GATE.open(1);
    for other in others {
        database.until_state(other.id(), JobState::Completed).await;
    }
    assert_eq!(database.client.job(holder.id()).await.unwrap().unwrap().state, JobState::Running);
    open.commit().await.unwrap();
    database.until_state(holder.id(), JobState::Completed).await;
}

#[support::test]
async fn r6_entering_the_mask_at_completion_never_fails(database: Database) {
    let only_completed = || UniqueKey::raw("k").states([JobState::Completed]);
    let runner = quick(&database.client).worker(at_once).start().await.unwrap();
    let answers = database.client.insert_many((0..20).map(|n| NewJob::from(Task { n }).unique_key(only_completed())));
    for answer in answers.await.unwrap() {
        if !answer.duplicate {
            database.until_state(answer.id(), JobState::Completed).await;
        }
    }
    runner.stop().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE claims").await, 1);
}
