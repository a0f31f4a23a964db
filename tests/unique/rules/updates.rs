//! R13: `update` changes a waiting holder in place.

use support::prelude::*;

/// A job of one key, while it waits.
pub(super) fn updating(args: &Value, update: Update) -> NewJob {
    NewJob::new("a", args).unique_key(UniqueKey::raw("k").update(update))
}

/// The same, not overdue however slow the test is.
fn later(args: &Value, update: Update) -> NewJob {
    updating(args, update).scheduled_in(60 * MINUTE)
}

fn args(job: &uniqueue::JobRow) -> Value {
    serde_json::from_str(job.args.get()).unwrap()
}

#[support::test]
async fn r13_latest_merge_and_append_change_the_args_of_the_holder_in_place(database: Database, client: &Client) {
    let first = json!({"a": 1, "list": [1], "deep": {"x": 1}});
    for (update, second, expected) in [
        (Update::latest(), json!([2]), json!([2])),
        (
            Update::merge(),
            json!({"b": null, "list": [2], "deep": {"y": 2}}),
            json!({"a": 1, "b": null, "list": [2], "deep": {"y": 2}}),
        ),
        (
            Update::append(),
            json!({"a": 1, "list": [1, 2], "new": [3]}),
            json!({"a": 1, "list": [1, 1, 2], "deep": {"x": 1}, "new": [3]}),
        ),
    ] {
        database.execute("DELETE FROM {schema}.job").await;
        let holder = client.insert(later(&first, update).priority(3)).await.unwrap();
        assert!(!holder.duplicate && !holder.updated);
        let answer = client.insert(updating(&second, update).queue("other")).await.unwrap();
        assert!(answer.duplicate && answer.updated && answer.replaced.is_none());
        assert_eq!((holder.job.updates, answer.job.updates), (0, 1));
        assert_eq!((answer.id(), answer.job.queue.as_str(), answer.job.priority), (holder.id(), "default", 3));
        assert_eq!((args(&answer.job), answer.job.scheduled_at), (expected.clone(), holder.job.scheduled_at));
        let row = client.job(holder.id()).await.unwrap().unwrap();
        assert_eq!((args(&row), row.claims, row.state), (expected, true, JobState::Scheduled));
        assert_eq!((row.updates, row.updated_at >= Some(row.created_at), row.updated_by.is_some()), (1, true, true));
        assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 1);
        assert_eq!(database.number("SELECT updates::bigint FROM {schema}.job WHERE updated_at >= created_at").await, 1);
    }
}

#[support::test]
async fn r13_an_update_that_is_sent_again_is_applied_once(database: Database, client: &Client) {
    client.insert(later(&json!({"i": [1]}), Update::append())).await.unwrap();
    let id = uuid::Uuid::now_v7();
    for _ in 0..3 {
        let again = updating(&json!({"i": [2]}), Update::append()).id(id);
        assert!(client.insert(again).await.unwrap().updated);
    }
    assert_eq!(database.text("SELECT args::text FROM {schema}.job").await, r#"{"i": [1, 2]}"#);
    let row = client.jobs(JobFilter::all()).await.unwrap().remove(0);
    assert_eq!((row.updates, row.updated_by), (1, Some(id.into())));
}

#[support::test]
async fn r13_a_full_holder_gives_up_its_claim_to_the_newcomer(database: Database, client: &Client) {
    let update = Update::append().max_items(3);
    let first = client.insert(later(&json!({"i": [1, 2]}), update)).await.unwrap();
    assert!(client.insert(updating(&json!({"i": [3]}), update)).await.unwrap().updated);
    let second = client.insert(updating(&json!({"i": [4]}), update)).await.unwrap();
    assert!(!second.duplicate && !second.updated && second.replaced.is_none());
    let first = client.job(first.id()).await.unwrap().unwrap();
    assert_eq!((args(&first), first.claims, first.state), (json!({"i": [1, 2, 3]}), false, JobState::Scheduled));
    assert_eq!(client.holder("k").await.unwrap().unwrap().id, second.id());
    // The limit of the args in bytes is one, too.
    let long = "x".repeat(600_000);
    let merge = |name: &str| {
        let long = long.clone();
        NewJob::new("a", &json!({ name: long })).unique_key(UniqueKey::raw("long").update(Update::merge()))
    };
    client.insert(merge("a")).await.unwrap();
    assert!(!client.insert(merge("b")).await.unwrap().duplicate);
}

#[support::test]
async fn r13_push_moves_a_scheduled_holder_up_to_max_delay_and_never_back(database: Database, client: &Client) {
    let push = |delay| updating(&json!({}), Update::latest().push(10 * MINUTE)).scheduled_in(delay);
    let holder = client.insert(push(5 * MINUTE)).await.unwrap().job;
    let answer = client.insert(push(8 * MINUTE)).await.unwrap();
    assert!(answer.updated && answer.job.scheduled_at - answer.answered_at > 7 * MINUTE);
    let back = client.insert(push(MINUTE)).await.unwrap().job;
    assert_eq!(back.scheduled_at, answer.job.scheduled_at, "never earlier than it is");
    database.pass(6 * MINUTE).await;
    let last = client.insert(push(8 * MINUTE)).await.unwrap().job;
    assert_eq!(last.scheduled_at - last.created_at, 10 * MINUTE, "the longest delay counts from the first insert");
    assert_eq!((last.id, last.state), (holder.id, JobState::Scheduled));
    // Once due, the time stays.
    for (state, arrives) in [("scheduled", "0.5 s"), ("available", "-0.5 s")] {
        let due = format!(
            "SELECT ({{schema}}._updated_schedule('{state}', NULL, t.at - interval '1 min', t.at, '10 min',
                t.at + interval '1 min', t.at + interval '{arrives}') = t.at)::text FROM (SELECT now() AS at) AS t"
        );
        assert_eq!(database.text(&due).await, "true");
    }
}

#[support::test]
async fn r13_a_holder_that_was_attempted_is_not_pushed_and_gets_new_attempts(database: Database, client: &Client) {
    let push = || updating(&json!({}), Update::latest().push(10 * MINUTE)).scheduled_in(MINUTE).max_attempts(5);
    let holder = client.insert(push()).await.unwrap().job;
    let attempted = "UPDATE {schema}.job SET state = 'retryable', attempt = 4, attempted_at = now(), scheduled_at = now() + interval '20 s'";
    database.execute(attempted).await;
    let answer = client.insert(push()).await.unwrap();
    assert!(answer.updated);
    assert_eq!((answer.id(), answer.job.state, answer.job.max_attempts), (holder.id, JobState::Retryable, 9));
    assert!(answer.job.scheduled_at - answer.answered_at < MINUTE / 2);
}

#[support::test]
async fn r13_a_ttl_moves_along_with_a_push_and_a_period_does_not(database: Database, client: &Client) {
    let push = Update::latest().push(10 * MINUTE);
    for (text, length) in [("exact", Length::from(MINUTE)), ("month", Length::months(1))] {
        let ttl = |delay| {
            let key = UniqueKey::raw(text).ttl(length).update(push);
            NewJob::new("a", &json!({})).unique_key(key).scheduled_in(delay)
        };
        client.insert(ttl(MINUTE)).await.unwrap();
        let moved = client.insert(ttl(5 * MINUTE)).await.unwrap().job;
        assert_eq!(moved.unique_until, length.after(moved.scheduled_at));
    }
    let period = |delay| {
        let key = UniqueKey::raw("period").period(10 * MINUTE).update(push);
        NewJob::new("a", &json!({})).unique_key(key).scheduled_in(delay)
    };
    client.insert(period(MINUTE)).await.unwrap();
    let moved = client.insert(period(5 * MINUTE)).await.unwrap().job;
    assert_eq!(moved.unique_until, Some(moved.created_at + 10 * MINUTE));
}

#[support::test]
async fn r12_r13_a_holder_that_runs_or_is_final_rejects_and_one_that_claims_no_more_is_no_holder(database: Database) {
    let client = &database.client;
    let key = |scope| UniqueKey::raw("k").scope(scope).on_conflict(OnConflict::Update);
    for (scope, state) in [(UniqueScope::Active, "running"), (UniqueScope::Exists, "completed")] {
        database.execute("DELETE FROM {schema}.job").await;
        let holder = client.insert(job("a").unique_key(key(scope))).await.unwrap();
        database.set_state(holder.id(), state).await;
        let running_again = UniqueKey::raw("k").on_conflict(OnConflict::RunAgain);
        for newcomer in [key(scope), running_again] {
            let error = client.insert(job("a").unique_key(newcomer)).await.unwrap_err();
            assert!(matches!(error, Error::Rejected(_)), "{state}: {error}");
        }
    }
    database.execute("DELETE FROM {schema}.job").await;
    let holder = client.insert(job("a").unique_key(key(UniqueScope::Queued))).await.unwrap();
    database.set_state(holder.id(), "running").await;
    assert!(!client.insert(job("a").unique_key(key(UniqueScope::Queued))).await.unwrap().duplicate);
}

#[support::test]
async fn r13_an_open_transaction_holds_up_other_updates_no_longer_than_max_wait(database: Database, client: &Client) {
    client.insert(later(&json!({"i": [0]}), Update::append())).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    client.insert(updating(&json!({"i": [1]}), Update::append())).tx(&mut tx).await.unwrap();
    let bounded =
        client.insert(updating(&json!({"i": [2]}), Update::append())).max_wait(Duration::from_millis(20)).await;
    assert!(matches!(bounded, Err(Error::Busy { .. })), "{bounded:?}");
    let waiting = inserting(client, updating(&json!({"i": [3]}), Update::append()));
    database.until_inserts_wait(1).await;
    tx.commit().await.unwrap();
    let answer = timeout(WAIT, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(args(&answer.job), json!({"i": [0, 1, 3]}), "from the first update's result");
}

#[support::test]
async fn r13_a_batch_folds_updates_in_input_order(database: Database, client: &Client) {
    let batch = [
        later(&json!({"i": [1]}), Update::append()),
        job("plain"),
        updating(&json!({"i": [2]}), Update::append()),
        updating(&json!({"i": [3]}), Update::append()),
    ];
    let answers = client.insert_many(batch).await.unwrap();
    let updated: Vec<_> = answers.iter().map(|answer| (answer.duplicate, answer.updated)).collect();
    assert_eq!(updated, [(false, false), (false, false), (true, true), (true, true)]);
    assert!(answers.iter().enumerate().all(|(n, answer)| n == 1 || answer.id() == answers[0].id()));
    assert_eq!(args(&client.job(answers[0].id()).await.unwrap().unwrap()), json!({"i": [1, 2, 3]}));
    // All or nothing: a rejection undoes the updates.
    let rejecting = job("a").unique_key(UniqueKey::raw("k").on_conflict(OnConflict::Reject));
    let batch = [updating(&json!({"i": [4]}), Update::append()), rejecting];
    assert!(matches!(client.insert_many(batch).await, Err(Error::Rejected(_))));
    assert_eq!(args(&client.job(answers[0].id()).await.unwrap().unwrap()), json!({"i": [1, 2, 3]}));
}
