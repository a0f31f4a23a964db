//! R5 and R6 on the runner's paths: a job gives its claim up, and takes it back.

use support::prelude::*;

/// A worker that fails when told to.
fn failing(gate: &'static Gate) -> impl Worker<Task> {
    move |job: RunningJob<Task>| async move {
        gate.pass().await;
        Outcome::retry(Duration::from_secs(3600), format!("attempt {}", job.attempt()))
    }
}

#[support::test]
async fn r5_until_start_gives_the_claim_up_at_fetch_for_good(database: Database) {
    static GATE: Gate = Gate::closed();
    database.start(quick(&database.client).worker(failing(&GATE))).await;
    let key = || UniqueKey::raw("k").scope(UniqueScope::Active).until_start();
    let first = database.client.insert(Task { n: 1 }).unique_key(key()).await.unwrap();
    GATE.begun(1).await;
    assert!(database.client.holder("k").await.unwrap().is_none());
    // Faktory: with the start policy a job that fails does not try to retake the lock.
    GATE.open(1);
    let row = database.until_state(first.id(), JobState::Retryable).await;
    assert!(!row.claims);
    assert!(!database.client.insert(job("other").unique_key(key())).await.unwrap().duplicate);
}

#[support::test]
async fn r6_a_retry_takes_its_claim_back_when_the_key_is_free(database: Database) {
    static GATE: Gate = Gate::closed();
    database.start(quick(&database.client).worker(failing(&GATE))).await;
    let first = database.client.insert(Task { n: 1 }).unique_key(UniqueKey::raw("k")).await.unwrap();
    GATE.begun(1).await;
    assert!(database.client.holder("k").await.unwrap().is_none(), "Queued does not cover running");
    GATE.open(1);
    let row = database.until_state(first.id(), JobState::Retryable).await;
    assert!(row.claims);
    assert!(database.client.insert(job("other").unique_key(UniqueKey::raw("k"))).await.unwrap().duplicate);
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
async fn r6_an_uncommitted_rival_holds_up_neither_the_retry_nor_its_batch(database: Database) {
    static GATE: Gate = Gate::closed();
    database.start(quick(&database.client).worker(failing(&GATE))).await;
    let first = database.client.insert(Task { n: 1 }).unique_key(UniqueKey::raw("k")).await.unwrap();
    GATE.begun(1).await;
    let mut rival = database.pool().begin().await.unwrap();
    database.client.insert(job("rival").unique_key(UniqueKey::raw("k"))).tx(&mut rival).await.unwrap();
    GATE.open(1);
    let row = database.until_state(first.id(), JobState::Retryable).await;
    assert!(!row.claims);
    rival.commit().await.unwrap();
}

#[support::test]
async fn r6_a_rival_that_rolls_back_discards_nobody(database: Database) {
    static GATE: Gate = Gate::closed();
    database.start(quick(&database.client).worker(failing(&GATE))).await;
    let key = || UniqueKey::raw("k").on_reentry(OnReentry::Discard);
    let first = database.client.insert(Task { n: 1 }).unique_key(key()).await.unwrap();
    GATE.begun(1).await;
    let mut rival = database.pool().begin().await.unwrap();
    database.client.insert(job("rival").unique_key(key())).tx(&mut rival).await.unwrap();
    GATE.open(1);
    let row = database.until_state(first.id(), JobState::Retryable).await;
    assert!(!row.claims);
    rival.rollback().await.unwrap();
    // The next change of state takes the free claim.
    database.client.retry([first.id()]).await.unwrap();
    GATE.begun(1).await;
    GATE.open(1);
    database.until_state(first.id(), JobState::Retryable).await;
    assert_eq!(database.client.holder("k").await.unwrap().map(|holder| holder.id), Some(first.id()));
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
    let key = || UniqueKey::raw("k").scope(UniqueScope::Active).period(Duration::from_secs(60));
    let holder = database.client.insert(Task { n: 1 }).unique_key(key()).await.unwrap();
    GATE.begun(1).await;
    database.pass(Duration::from_secs(60)).await;
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
async fn r6_two_retryable_twins_with_an_odd_mask_are_both_promoted(database: Database) {
    let odd = || UniqueKey::raw("k").states([JobState::Available, JobState::Running]);
    let mut twins = Vec::new();
    for n in 0..2 {
        let twin = database.client.insert(Task { n }).unique_key(odd()).await.unwrap();
        assert!(!twin.duplicate);
        database.set_state(twin.id(), "retryable").await;
        twins.push(twin.id());
    }
    let unrelated = database.client.insert(Task { n: 9 }).scheduled_in(Duration::from_millis(1)).await.unwrap();
    database.start(quick(&database.client).worker(at_once)).await;
    for id in twins.into_iter().chain([unrelated.id()]) {
        database.until_state(id, JobState::Completed).await;
    }
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
