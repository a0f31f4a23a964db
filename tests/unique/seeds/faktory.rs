//! Faktory Pro: the page on its unique jobs.

use uniqueue::Result;

use super::{Stage, claim, failure, jobs, prune, race};
use support::prelude::*;

/// The page's `unique_for`.
const UNIQUE_FOR: Duration = Duration::from_secs(600);

#[derive(Deserialize, Serialize)]
struct SomeType(i64, i64);

impl Job for SomeType {
    const KIND: &'static str = "sometype";
}

/// The page's own job, with what its custom attributes say.
fn sometype(policy: UniquePolicy) -> NewJob {
    NewJob::from(SomeType(1, 2)).unique(policy)
}

fn policy() -> UniquePolicy {
    UniquePolicy::faktory(UNIQUE_FOR)
}

async fn push(database: &Database) -> Result<Inserted> {
    database.client.insert(sometype(policy())).await
}

/// Asserts that the lock is taken, and by whom.
async fn assert_locked(database: &Database, holder: JobId) {
    let error = push(database).await.unwrap_err();
    assert_eq!(error.rejections()[0].holder, Some(holder));
}

/// `unique_for` is a number of seconds, whole or not.
#[test]
fn unique_for_is_a_length_in_seconds_with_or_without_a_fraction() {
    assert_eq!(UniquePolicy::faktory(Duration::from_secs_f64(600.0)), UniquePolicy::faktory(UNIQUE_FOR));
    let half = claim(&UniquePolicy::faktory(Duration::from_secs_f64(0.5)), "k", "q", &json!([])).unwrap();
    assert_eq!(half.terms.ttl, Some(Duration::from_millis(500).into()));
}

#[support::test]
async fn a_second_job_may_be_pushed_after_ten_minutes(database: Database) {
    let first = push(&database).await.unwrap();
    database.pass(UNIQUE_FOR - MINUTE).await;
    assert_locked(&database, first.id()).await;
    database.pass(MINUTE).await;
    let second = push(&database).await.unwrap();
    assert!(!second.duplicate);
    assert_eq!(jobs(&database).await, 2, "the first waits on, without the lock");
}

#[support::test]
async fn a_second_job_may_be_pushed_after_the_first_succeeded(database: Database) {
    let first = push(&database).await.unwrap();
    let mut stage = Stage::of::<SomeType>(&database).await;
    stage.started().await;
    assert_locked(&database, first.id()).await;
    stage.ends(first.id(), Outcome::complete(), JobState::Completed).await;
    assert!(!push(&database).await.unwrap().duplicate);
}

#[support::test]
async fn a_job_that_retries_past_its_time_lets_another_copy_in(database: Database) {
    let mut stage = Stage::of::<SomeType>(&database).await;
    let first = push(&database).await.unwrap();
    stage.works(first.id(), Outcome::retry(24 * HOUR, "the other side is down"), JobState::Retryable).await;
    assert_locked(&database, first.id()).await;
    database.pass(UNIQUE_FOR).await;
    let second = push(&database).await.unwrap();
    assert!(!second.duplicate);
    assert_eq!(stage.started().await, second.id());
    assert_locked(&database, second.id()).await;
    // The old copy's retry comes due, without the lock and without trouble.
    database.execute(&format!("UPDATE {{schema}}.job SET scheduled_at = now() WHERE id = '{}'", first.id())).await;
    assert_eq!(stage.started().await, first.id());
    stage.end(Outcome::complete());
    stage.end(Outcome::complete());
    for id in [first.id(), second.id()] {
        database.until_state(id, JobState::Completed).await;
    }
}

/// Where the page asks for jobs that bear a copy or two, the lock here is exact: it changes hands
/// to exactly one of many at its end.
#[support::test(with_connections(12))]
async fn best_effort_is_exact_here_even_at_the_moment_of_expiry(database: Database) {
    push(&database).await.unwrap();
    for round in 2..8 {
        database.pass(UNIQUE_FOR).await;
        // What a duplicate does makes no difference.
        let on_conflict = [OnConflict::Reject, OnConflict::Ignore][round as usize % 2];
        let answers = race(&database, 12, || sometype(policy().on_conflict(on_conflict))).await;
        let is_new = |answer: &&Result<Inserted>| answer.as_ref().is_ok_and(|answer| !answer.duplicate);
        assert_eq!(answers.iter().filter(is_new).count(), 1);
        assert_eq!(jobs(&database).await, round);
    }
}

#[support::test]
async fn a_time_limit_is_mandatory(database: Database) {
    let inserted = push(&database).await.unwrap();
    assert!(inserted.job.unique_until.is_some());
    for never in [Duration::ZERO, Duration::MAX] {
        let error = database.client.insert(sometype(UniquePolicy::faktory(never))).await.unwrap_err();
        assert!(error.to_string().starts_with("invalid unique policy: ttl: "), "{error}");
    }
}

#[support::test]
async fn class_args_and_queue_make_two_jobs_the_same(database: Database, client: &Client) {
    let first = push(&database).await.unwrap();
    for different in [
        sometype(policy()).queue("critical"),
        NewJob::from(SomeType(2, 1)).unique(policy()),
        NewJob::new("othertype", &json!([1, 2])).unique(policy()),
    ] {
        assert!(!client.insert(different).await.unwrap().duplicate);
    }
    assert_locked(&database, first.id()).await;
    let error = client.insert(sometype(policy()).queue("critical")).await.unwrap_err();
    assert_ne!(error.rejections()[0].holder, Some(first.id()), "each queue has its own");
}

/// The page's sum: an hour of delay and ten minutes are seventy minutes of lock.
#[support::test]
async fn the_lock_of_a_scheduled_job_includes_its_delay(database: Database) {
    let in_an_hour = || database.client.insert(sometype(policy())).scheduled_in(HOUR);
    let first = in_an_hour().await.unwrap();
    assert_eq!(first.job.unique_until.unwrap() - first.job.created_at, 70 * MINUTE);
    database.pass(69 * MINUTE).await;
    assert_eq!(in_an_hour().await.unwrap_err().rejections()[0].holder, Some(first.id()));
    assert_locked(&database, first.id()).await;
    database.pass(MINUTE).await;
    assert!(push(&database).await.is_ok());
}

/// A scheduled job that succeeds gives its lock up at once, long before the seventy minutes.
#[support::test]
async fn the_lock_of_a_scheduled_job_ends_at_its_success_all_the_same(database: Database) {
    let first = database.client.insert(sometype(policy())).scheduled_in(HOUR).await.unwrap();
    let mut stage = Stage::of::<SomeType>(&database).await;
    assert_locked(&database, first.id()).await;
    database.execute("UPDATE {schema}.job SET scheduled_at = now()").await;
    stage.works(first.id(), Outcome::complete(), JobState::Completed).await;
    assert!(push(&database).await.is_ok());
}

#[support::test]
async fn a_job_waiting_for_its_retry_holds_the_lock_until_it_succeeds(database: Database) {
    let mut stage = Stage::of::<SomeType>(&database).await;
    let first = push(&database).await.unwrap();
    stage.works(first.id(), Outcome::retry(MINUTE, "no luck"), JobState::Retryable).await;
    assert_locked(&database, first.id()).await;
    database.pass(MINUTE).await;
    stage.started().await;
    assert_locked(&database, first.id()).await;
    stage.ends(first.id(), Outcome::complete(), JobState::Completed).await;
    assert!(push(&database).await.is_ok());
}

#[support::test]
async fn removing_a_job_from_the_retries_does_not_remove_its_lock(database: Database) {
    let first = push(&database).await.unwrap();
    database.set_state(first.id(), "retryable").await;
    assert_eq!(database.client.cancel(first.id()).await.unwrap(), [first.id()]);
    assert_locked(&database, first.id()).await;
    // Nor does retention, which leaves a final job alone while its lock has time to run.
    prune(&database, Retention::forever().cancelled(Duration::ZERO)).await;
    assert_locked(&database, first.id()).await;
    database.pass(UNIQUE_FOR).await;
    assert!(push(&database).await.is_ok());
    prune(&database, Retention::forever().cancelled(Duration::ZERO)).await;
    assert!(database.client.job(first.id()).await.unwrap().is_none());
}

/// What deletes the row deletes the lock, which is in it.
#[support::test]
async fn deleting_a_job_removes_its_lock(database: Database) {
    let first = push(&database).await.unwrap();
    database.set_state(first.id(), "retryable").await;
    assert_eq!(database.client.delete(first.id()).await.unwrap(), [first.id()]);
    assert!(push(&database).await.is_ok());
}

#[support::test]
async fn until_success_is_the_default_and_outlives_errors(database: Database) {
    assert_eq!(policy().until(Until::Success), policy());
    let mut stage = Stage::of::<SomeType>(&database).await;
    let first = database.client.insert(sometype(policy())).max_attempts(2).await.unwrap();
    stage.works(first.id(), failure(), JobState::Retryable).await;
    assert_locked(&database, first.id()).await;
    database.execute("UPDATE {schema}.job SET scheduled_at = now()").await;
    stage.works(first.id(), failure(), JobState::Discarded).await;
    assert_locked(&database, first.id()).await;
}

/// The page's second example: unlocked right before it starts.
#[support::test]
async fn until_start_unlocks_right_before_the_job_starts(database: Database) {
    let start = || sometype(policy().until(Until::Start));
    let first = database.client.insert(start()).await.unwrap();
    assert!(database.client.insert(start()).await.unwrap_err().is_duplicate());
    let mut stage = Stage::of::<SomeType>(&database).await;
    assert_eq!(stage.started().await, first.id());
    // The race that the policy is for: a push while the job runs is never refused.
    let second = database.client.insert(start()).await.unwrap();
    assert!(!second.duplicate);
    assert_eq!(stage.started().await, second.id());
    stage.end(Outcome::complete());
    stage.end(Outcome::complete());
}

#[support::test]
async fn until_start_does_not_take_the_lock_back_after_an_error(database: Database) {
    let start = || sometype(policy().until(Until::Start));
    let mut stage = Stage::of::<SomeType>(&database).await;
    let first = database.client.insert(start()).await.unwrap();
    let row = stage.works(first.id(), failure(), JobState::Retryable).await;
    assert!(!row.claims);
    let copy = database.client.insert(start()).scheduled_in(HOUR).await.unwrap();
    assert!(!copy.duplicate);
    assert!(database.client.insert(start()).await.unwrap_err().is_duplicate(), "the copy has a lock of its own");
}

/// Without a `unique_for`, or with an empty one, nothing is checked.
#[support::test]
async fn a_push_without_unique_for_bypasses_uniqueness(database: Database, client: &Client) {
    let first = push(&database).await.unwrap();
    for _ in 0..2 {
        assert!(!client.insert(SomeType(1, 2)).await.unwrap().duplicate);
        // The page's `nil`, on a job whose type or call says otherwise.
        assert!(!client.insert(sometype(policy())).not_unique().await.unwrap().duplicate);
    }
    assert_locked(&database, first.id()).await;
}
