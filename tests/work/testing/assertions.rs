//! The assertions, and their failure messages.

use uniqueue::testing::{self, Expectation};
use uniqueue::{
    assert_covered, assert_duplicate, assert_held_back, assert_inserted, assert_not_duplicate, assert_not_inserted,
    assert_updated,
};

use super::Task;
use support::prelude::*;

/// The message of the panic that a future ends in.
async fn panic_of(future: impl Future<Output: Send> + Send + 'static) -> String {
    let panic = tokio::spawn(async { drop(future.await) }).await.unwrap_err().into_panic();
    *panic.downcast::<String>().unwrap()
}

#[support::test]
async fn each_criterion_finds_its_job_and_no_other(database: testing::Database, client: &Client) {
    let at = time::OffsetDateTime::now_utc() + 2 * HOUR;
    let args = json!({"to": {"name": "Ada", "tags": ["a", "b"]}, "n": 1});
    let sent = NewJob::new("mail", &args).queue("out").priority(7).meta("tenant", "acme");
    let sent = client.insert(sent.unique_key(UniqueKey::raw("k")).group("customer:1")).await.unwrap();
    client.insert(NewJob::new("mail", &json!({})).scheduled_in(HOUR)).await.unwrap();
    client.insert(NewJob::new("report", &json!({})).scheduled_at(at)).await.unwrap();
    client.insert(Task { n: 3 }).pending().await.unwrap();

    assert_inserted!(database, _, count = 4);
    assert_inserted!(client, "mail", count = 2);
    let name = String::from("mail");
    assert_inserted!(&database, kind = name, count = 2);
    assert_inserted!(database, Task, args = Task { n: 3 }, state = JobState::Pending);
    assert_inserted!(database, super::Task, count = 1,);
    let found = assert_inserted!(database, _, args = {"to": {"tags": ["b"]}});
    assert_eq!(found[0].id, sent.id());
    for found in [
        assert_inserted!(database, _, queue = "out", count = 1),
        assert_inserted!(database, _, priority = 7, count = 1),
        assert_inserted!(database, _, meta = {"tenant": "acme"}, count = 1),
        assert_inserted!(database, _, unique_key = "k", count = 1),
        assert_inserted!(database, _, id = sent.id(), count = 1),
        assert_inserted!(database, _, group = "customer:1", count = 1),
    ] {
        assert_eq!(found[0].id, sent.id());
    }
    assert_inserted!(database, "mail", scheduled_in = HOUR, state = JobState::Scheduled, count = 1);
    assert_inserted!(database, "report", scheduled_at = at, count = 1);
    assert_not_inserted!(database, "report", scheduled_at = at + Duration::from_secs(2));
    assert_not_inserted!(database, "mail", scheduled_in = HOUR / 2);
    assert_not_inserted!(database, _, args = {"to": {"name": "Bob"}});
    assert_not_inserted!(database, "mail", queue = "elsewhere");
    assert_not_inserted!(database, _, unique_key = "other");
    assert_not_inserted!(database, _, group = "customer:2");
}

#[support::test]
async fn a_transaction_is_looked_into_and_stays_usable(database: testing::Database) {
    let mut tx = database.pool().begin().await.unwrap();
    database.client().insert(Task { n: 1 }).tx(&mut tx).await.unwrap();
    assert_inserted!(database, Task, tx = &mut tx, args = {"n": 1});
    assert_not_inserted!(database, Task, args = {"n": 2}, tx = &mut tx);
    assert_not_inserted!(database, Task);
    tx.rollback().await.unwrap();
    assert_not_inserted!(database, Task);
}

#[support::test]
async fn a_failure_says_what_was_expected_and_what_is_there(database: testing::Database) {
    let story = Expectation::new(&database).kind(Task::KIND).check().await.unwrap_err();
    assert_eq!(story, "expected at least one job with kind task; found 0\nthere is no job at all");

    let client = database.client().clone();
    client.insert(NewJob::new("other", &json!({"n": 2})).queue("out")).await.unwrap();
    client.insert(Task { n: 1 }).await.unwrap();
    let looked = client.clone();
    let story = panic_of(async move { assert_inserted!(looked, Task, queue = "default", args = {"n": 2}) }).await;
    let lines: Vec<_> = story.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "expected at least one job with kind task, queue default, args containing {\"n\":2}; found 0",
            "there are 2 jobs:",
        ]
    );
    // What comes nearest is first.
    assert!(lines[2].starts_with("  task in default, available, args {\"n\": 1}, scheduled_at "), "{story}");
    assert!(lines[2].ends_with(" (differs in args)"), "{story}");
    assert!(lines[3].ends_with(" (differs in kind, queue)"), "{story}");

    let looked = client.clone();
    let story = panic_of(async move { assert_inserted!(looked, Task, count = 2) }).await;
    assert!(story.starts_with("expected exactly 2 jobs with kind task; found 1\n"), "{story}");
    let looked = client.clone();
    let story = panic_of(async move { assert_not_inserted!(looked, Task) }).await;
    assert!(story.starts_with("expected no job with kind task; found 1\n"), "{story}");
    assert!(story.contains("(fits)"), "{story}");

    let many = (0..30).map(|n| NewJob::new("long", &json!({"n": n, "text": "x".repeat(500)})));
    client.insert_many(many).await.unwrap();
    let story = Expectation::new(&client).kind("nothing").check().await.unwrap_err();
    assert!(story.contains("there are 32 jobs, the nearest of them:"), "{story}");
    assert_eq!(story.lines().count(), 12);
    assert!(story.lines().all(|line| line.len() < 400), "{story}");
}

#[support::test]
async fn duplicates_are_asserted_with_their_holder(database: testing::Database, client: &Client) {
    let job = |key: &str| NewJob::new("a", &json!({})).unique_key(UniqueKey::raw(key));
    let first = client.insert(job("k")).await.unwrap();
    let other = client.insert(job("l")).await.unwrap();
    assert_not_duplicate!(first);
    let again = client.insert(job("k")).await;
    assert_eq!(assert_duplicate!(again, of = first), first.id());
    assert_duplicate!(again.as_ref().unwrap());
    assert_duplicate!(again, of = first.id());
    assert_duplicate!(again, of = first.job);
    let refused = client.insert(job("k").unique_key(UniqueKey::raw("k").on_conflict(OnConflict::Reject))).await;
    assert_duplicate!(refused, of = first);
    assert_duplicate!(refused.unwrap_err(), of = first);

    let (holder, stranger) = (first.id(), other.id());
    let again = client.insert(job("k")).await.unwrap();
    let story = panic_of(async move { assert_duplicate!(again, of = stranger) }).await;
    assert_eq!(story, format!("a duplicate, but of job {holder} and not of {stranger}"));
    let again = client.insert(job("k")).await.unwrap();
    let story = panic_of(async move { assert_not_duplicate!(again) }).await;
    assert_eq!(story, format!("expected a new job, got a duplicate of job {holder}"));
    let story = panic_of(async move { assert_duplicate!(first) }).await;
    assert_eq!(story, format!("not a duplicate: job {holder} of kind a was inserted; its unique key: \"k\""));
    let failed = client.insert(job("")).await;
    let story = panic_of(async move { assert_not_duplicate!(failed) }).await;
    assert!(story.starts_with("expected a new job, got the insert failed: invalid unique key"), "{story}");
}

#[support::test]
async fn covered_and_updated_inserts_are_asserted_with_their_holder(database: testing::Database, client: &Client) {
    let job =
        |key: &str, on_conflict| NewJob::new("a", &json!({})).unique_key(UniqueKey::raw(key).on_conflict(on_conflict));
    let first = client.insert(job("k", OnConflict::Ignore)).await.unwrap();
    let holder = first.id();
    let covered = client.insert(job("k", OnConflict::RunAgain)).await;
    assert_eq!(assert_covered!(covered, by = first), holder);
    assert_covered!(covered.unwrap());
    let updated = client.insert(job("k", OnConflict::Update)).await;
    assert_eq!(assert_updated!(updated, of = holder), holder);
    assert_updated!(updated.unwrap());

    let plain = client.insert(job("k", OnConflict::Ignore)).await.unwrap();
    let story = panic_of(async move { assert_covered!(plain) }).await;
    let expected = format!("not covered: a duplicate of job {holder} without run_again or one_at_a_time");
    assert_eq!(story, expected);
    let refused = client.insert(job("k", OnConflict::Reject)).await;
    let story = panic_of(async move { assert_updated!(refused) }).await;
    assert_eq!(story, format!("no update: a duplicate of job {holder}, which was left as it is"));
    let other = client.insert(job("l", OnConflict::RunAgain)).await.unwrap();
    let story = panic_of(async move { assert_covered!(other, by = holder) }).await;
    assert!(story.starts_with("not a duplicate: job "), "{story}");
}

#[support::test]
async fn a_queue_and_a_group_are_held_back_by_a_rate_or_a_hold(database: testing::Database) {
    let client = database.client().clone();
    let runner = || Runner::new(client.clone()).queue("a", 5).queue("b", 5).worker(|_: RunningJob<Task>| async {});
    client.queue("a").set(QueueChanges::new().rate(Some(Rate::per(2, HOUR)))).await.unwrap();
    client.queue("b").set(QueueChanges::new().group_rate(Some(Rate::per(1, HOUR)))).await.unwrap();
    let free = client.clone();
    let message = panic_of(async move { assert_held_back!(free, "a") }).await;
    assert_eq!(message, "queue a is not held back: a job may start now. The queue has a rate of 2/1h");
    let jobs = (0..3).map(|n| NewJob::from(Task { n }).queue("a"));
    client.insert_many(jobs.chain([NewJob::from(Task { n: 3 }).queue("b").group("x")])).await.unwrap();
    assert_eq!(testing::drain(runner()).await.unwrap().completed(), 3);
    let length = assert_held_back!(database, "a");
    assert!(length > HOUR / 3 && length <= HOUR / 2, "{length:?}");
    assert!(assert_held_back!(database, String::from("b"), group = "x") <= HOUR);
    // A group is held back by its queue.
    assert_held_back!(client, "a", group = "any");
    let free = client.clone();
    let message = panic_of(async move { assert_held_back!(free, "b", group = "y") }).await;
    assert!(
        message.starts_with("group y of queue b is not held back") && message.contains("for each group"),
        "{message}"
    );
    database.advance(HOUR).await.unwrap();
    let free = client.clone();
    panic_of(async move { assert_held_back!(free, "a") }).await;
    client.queue("c").hold(HOUR).await.unwrap();
    client.queue("b").hold_group("y", HOUR).await.unwrap();
    assert!(assert_held_back!(database, "c") <= HOUR);
    assert_held_back!(database, "b", group = "y");
    let refused = client.clone();
    assert!(panic_of(async move { assert_held_back!(refused, "") }).await.contains("cannot be read"));
}
