//! R4 and R14: the effect of a duplicate.

use support::prelude::*;

fn key(text: &str, on_conflict: OnConflict) -> UniqueKey {
    UniqueKey::raw(text).scope(UniqueScope::Active).on_conflict(on_conflict)
}

#[support::test]
async fn r4_reject_is_a_typed_error_that_names_the_holder_and_keeps_the_transaction(database: Database) {
    let client = &database.client;
    let holder = client.insert(job("a").unique_key(key("k", OnConflict::Reject))).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    client.insert(job("before")).tx(&mut tx).await.unwrap();
    let error = client.insert(job("a").unique_key(key("k", OnConflict::Reject))).tx(&mut tx).await.unwrap_err();
    assert!(error.is_duplicate());
    assert!(!error.is_retryable());
    let [rejection] = error.rejections() else { panic!("{error}") };
    assert_eq!((rejection.index, rejection.holder), (0, Some(holder.id())));
    assert_eq!(rejection.holder_state, Some(JobState::Available));
    assert!(error.to_string().contains(&holder.id().to_string()), "{error}");
    let duplicate = rejection.duplicate.as_ref().unwrap();
    assert_eq!((duplicate.unique_key.as_str(), rejection.earlier), ("k", None));
    assert!(duplicate.frees().starts_with("when it is "), "{duplicate}");
    client.insert(job("after")).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE kind IN ('before', 'after')").await, 2);
}

/// A schedule is a schedule when its time has come, too: events that never end must not put a job off for ever.
#[support::test]
async fn r4_replace_except_schedule_keeps_a_time_that_has_come_and_that_of_a_pending_job(database: Database) {
    let client = &database.client;
    let keep = |text: &str| key(text, OnConflict::ReplaceExceptSchedule);
    // By the promoter, and by an operator's retry or release.
    let due = client.insert(job("a").scheduled_in(HOUR).unique_key(keep("due"))).await.unwrap();
    database.pass(HOUR).await;
    database.execute("UPDATE {schema}.job SET state = 'available' WHERE scheduled_at <= now()").await;
    let hurried = client.insert(job("a").scheduled_in(HOUR).unique_key(keep("hurried"))).await.unwrap();
    assert_eq!(client.reschedule([hurried.id()], OffsetDateTime::now_utc()).await.unwrap().len(), 1);
    let released = client.insert(job("a").pending().unique_key(keep("released"))).await.unwrap();
    assert_eq!(client.release([released.id()]).await.unwrap().len(), 1);
    for text in ["due", "hurried", "released"] {
        let holder = client.holder(text).await.unwrap().unwrap();
        assert_eq!(holder.state, JobState::Available, "{text}");
        let new = client.insert(job("a").scheduled_in(HOUR).unique_key(keep(text))).await.unwrap();
        assert_eq!(new.replaced, Some(holder.id), "{text}");
        assert_eq!((new.job.scheduled_at, new.job.state), (holder.scheduled_at, JobState::Available), "{text}");
    }
    assert_eq!(client.job(due.id()).await.unwrap().unwrap().state, JobState::Cancelled);

    let pending = client.insert(job("a").pending().unique_key(keep("pending"))).await.unwrap();
    let then = OffsetDateTime::now_utc() + 24 * HOUR;
    client.reschedule([pending.id()], then).await.unwrap();
    let holder = client.holder("pending").await.unwrap().unwrap();
    assert_eq!(holder.state, JobState::Pending);
    let new = client.insert(job("a").unique_key(keep("pending"))).await.unwrap();
    assert_eq!((new.job.scheduled_at, new.job.state), (holder.scheduled_at, JobState::Scheduled));
}

#[support::test(with_connections(16))]
async fn r4_of_many_concurrent_replaces_one_lives_and_every_other_names_its_successor(database: Database) {
    let replace = |_| {
        let client = database.client.clone();
        async move {
            for _ in 0..10 {
                client.insert(job("a").unique_key(key("k", OnConflict::Replace))).await.unwrap();
            }
        }
    };
    together((0..16).map(replace)).await;
    let states = "SELECT string_agg(state || ' ' || n, ', ' ORDER BY state)
        FROM (SELECT state::text, count(*) AS n FROM {schema}.job GROUP BY state) AS s";
    assert_eq!(database.text(states).await, "available 1, cancelled 159");
    let successors = "SELECT count(DISTINCT replaced_by) FROM {schema}.job WHERE state = 'cancelled'";
    assert_eq!(database.number(successors).await, 159);
}

#[support::test]
async fn r4_replace_rolls_back_with_the_callers_transaction(database: Database, client: &Client) {
    let old = client.insert(job("a").unique_key(key("k", OnConflict::Replace))).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    client.insert(job("a").unique_key(key("k", OnConflict::Replace))).tx(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    let old = client.job(old.id()).await.unwrap().unwrap();
    assert_eq!((old.state, old.claims, old.replaced_by), (JobState::Available, true, None));
}

#[support::test]
async fn r4_a_refused_replace_leaves_the_running_holder_unlocked(database: Database, client: &Client) {
    let holder = client.insert(job("a").unique_key(key("k", OnConflict::Replace))).await.unwrap();
    database.set_state(holder.id(), "running").await;
    let mut tx = database.pool().begin().await.unwrap();
    let refused = client.insert(job("a").unique_key(key("k", OnConflict::Replace))).tx(&mut tx).await;
    assert!(matches!(refused, Err(Error::Rejected(_))));
    assert_eq!(database.number("SELECT count(*) FROM (SELECT FROM {schema}.job FOR UPDATE SKIP LOCKED) AS j").await, 1);
    tx.rollback().await.unwrap();
}

#[support::test]
async fn r14_preempt_cancels_a_running_holder_whose_result_does_not_count(database: Database, client: &Client) {
    static STARTED: Notify = Notify::const_new();
    static STOPPED: Notify = Notify::const_new();
    // The first run goes on until it is told to stop, and completes all the same.
    let work = async |task: RunningJob<Task>| {
        if task.args.n == 1 {
            STARTED.notify_one();
            task.stopped().await;
            STOPPED.notify_one();
        }
    };
    let runner = quick(client).worker(work).start().await.unwrap();
    let preempting = |n| uniqueue::NewJob::from(Task { n }).unique_key(key("k", OnConflict::Preempt));
    let old = client.insert(preempting(1)).await.unwrap();
    timeout(WAIT, STARTED.notified()).await.unwrap();
    let new = client.insert(preempting(2)).await.unwrap();
    assert!(!new.duplicate);
    assert_eq!(new.replaced, Some(old.id()));
    // Its runner hears of it by a notification, and not at its next heartbeat.
    timeout(WAIT, STOPPED.notified()).await.unwrap();
    let new = client.wait(new.id()).timeout(WAIT).await.unwrap();
    assert_eq!(new.job().unwrap().state, JobState::Completed);
    runner.stop().await.unwrap();
    let old = client.job(old.id()).await.unwrap().unwrap();
    assert_eq!((old.state, old.replaced_by), (JobState::Cancelled, Some(new.job().unwrap().id)));
    assert!(!old.claims);
}

#[support::test]
async fn r14_preempt_waits_for_an_open_complete_in_and_then_inserts(database: Database, client: &Client) {
    static GATE: Gate = Gate::closed();
    let work = async |task: RunningJob<Task>| {
        let mut tx = task.client().pool().begin().await?;
        task.complete_in(&mut tx).await?;
        GATE.pass().await;
        tx.commit().await?;
        Ok::<_, BoxError>(())
    };
    database.start(quick(client).worker(work)).await;
    let preempting = |n| uniqueue::NewJob::from(Task { n }).unique_key(key("k", OnConflict::Preempt)).pending();
    let old = client.insert(preempting(1)).await.unwrap();
    client.release(old.id()).await.unwrap();
    GATE.begun(1).await;
    let bounded = client.insert(preempting(2)).max_wait(Duration::from_millis(20)).await;
    assert!(matches!(bounded, Err(Error::Busy { .. })), "{bounded:?}");
    let waiting = inserting(client, preempting(3));
    database.until_inserts_wait(1).await;
    GATE.open(1);
    let new = timeout(WAIT, waiting).await.unwrap().unwrap().unwrap();
    assert!(!new.duplicate && new.replaced.is_none(), "the holder completed, and claims no more");
    assert_eq!(client.wait(old.id()).timeout(WAIT).await.unwrap().job().unwrap().state, JobState::Completed);
}

#[support::test]
async fn r4_r14_a_waiting_holder_is_cancelled_and_a_final_one_keeps_its_state(database: Database, client: &Client) {
    for (on_conflict, state) in [
        (OnConflict::Replace, JobState::Completed),
        (OnConflict::Preempt, JobState::Completed),
        (OnConflict::Preempt, JobState::Scheduled),
    ] {
        let text = format!("{on_conflict} {state}");
        let unique = || UniqueKey::raw(&text).scope(UniqueScope::Exists).on_conflict(on_conflict);
        let id = client.insert(job("a").unique_key(unique())).await.unwrap().id();
        database.set_state(id, state.as_str()).await;
        let before = client.job(id).await.unwrap().unwrap();
        let new = client.insert(job("a").unique_key(unique())).await.unwrap();
        assert_eq!((new.duplicate, new.replaced), (false, Some(id)), "{text}");
        let old = client.job(id).await.unwrap().unwrap();
        assert!(!old.claims);
        if state == JobState::Scheduled {
            assert_eq!((old.state, old.replaced_by), (JobState::Cancelled, Some(new.id())));
        } else {
            assert_eq!((old.state, old.finalized_at, old.replaced_by), (state, before.finalized_at, None), "{text}");
        }
    }
}
