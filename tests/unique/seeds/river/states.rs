//! The states in which a job is unique, and how it is enforced.

use super::{ReconcileAccount, database_early_in, reconcile};
use crate::seeds::{Stage, failure, jobs, prune};
use support::prelude::*;

#[support::test]
async fn without_completed_each_completion_lets_the_next_one_in(database: Database) {
    let policy =
        || UniquePolicy::river().by_args().states(UniqueScope::Completed.states().without(JobState::Completed));
    assert_eq!(policy(), UniquePolicy::river().by_args().scope(UniqueScope::Active));
    let mut stage = Stage::of::<ReconcileAccount>(&database).await;
    for _ in 0..3 {
        let insert = || database.client.insert(ReconcileAccount { account_id: 1 }).unique(policy());
        let first = insert().await.unwrap();
        assert!(!first.duplicate);
        stage.started().await;
        assert!(insert().await.unwrap().duplicate);
        stage.ends(first.id(), Outcome::complete(), JobState::Completed).await;
    }
}

/// River requires four states in the list. Here any set will do, since every way through the
/// states has an answer to a rival.
#[support::test]
async fn no_state_is_required(database: Database) {
    let mut stage = Stage::of::<ReconcileAccount>(&database).await;
    for required in [JobState::Pending, JobState::Scheduled, JobState::Available, JobState::Running] {
        let states = UniqueScope::Completed.states().without(required);
        let insert = || {
            database.client.insert(ReconcileAccount { account_id: 1 }).unique_key(UniqueKey::raw("k").states(states))
        };
        let first = insert().await.unwrap();
        stage.works(first.id(), failure(), JobState::Retryable).await;
        database.pass(HOUR).await;
        stage.works(first.id(), Outcome::complete(), JobState::Completed).await;
        assert!(insert().await.unwrap().duplicate, "and completed still claims");
        database.execute("DELETE FROM {schema}.job").await;
    }
}

/// With retryable out of the list an erroring job may find its key taken. River discards it; here
/// that is asked for, and the default is that no job is lost.
#[support::test]
async fn an_erroring_job_whose_key_was_taken_is_discarded_only_where_the_policy_asks(database: Database) {
    let mut stage = Stage::of::<ReconcileAccount>(&database).await;
    for (account_id, on_reentry) in [(1, OnReentry::GoOn), (2, OnReentry::Discard)] {
        let states = UniqueScope::Completed.states().without(JobState::Retryable);
        let policy = UniquePolicy::river().by_args().states(states).on_reentry(on_reentry);
        let insert = || database.client.insert(ReconcileAccount { account_id }).unique(policy.clone());
        let first = insert().await.unwrap();
        stage.works(first.id(), failure(), JobState::Retryable).await;
        let rival = insert().scheduled_in(DAY).await.unwrap();
        assert!(!rival.duplicate);
        database.execute(&format!("UPDATE {{schema}}.job SET scheduled_at = now() WHERE id = '{}'", first.id())).await;
        if on_reentry == OnReentry::GoOn {
            stage.works(first.id(), Outcome::complete(), JobState::Completed).await;
        } else {
            let row = database.until_state(first.id(), JobState::Discarded).await;
            assert!(row.errors.last().unwrap().error.contains("re-entry"), "{:?}", row.errors);
        }
        let holder = rival.job.unique_key.as_deref().unwrap();
        assert_eq!(database.client.holder(holder).await.unwrap().unwrap().id, rival.id());
    }
}

/// Completed jobs are kept for a day, and with one its claim goes: without a period there may be
/// a new job every day.
#[support::test]
async fn a_completed_job_keeps_its_claim_until_it_is_pruned_after_a_day(database: Database) {
    let day = Retention::forever().completed(DAY).cancelled(DAY).discarded(7 * DAY);
    assert_eq!(Retention::default(), day);
    let by_args = || reconcile(json!({}), UniquePolicy::river().by_args());
    let first = database.client.insert(by_args()).await.unwrap();
    database.set_state(first.id(), "completed").await;
    let finished = |ago: &str| format!("UPDATE {{schema}}.job SET finalized_at = now() - interval '{ago}'");
    database.execute(&finished("23 hours 59 minutes")).await;
    prune(&database, Retention::default()).await;
    assert!(database.client.insert(by_args()).await.unwrap().duplicate);
    database.execute(&finished("24 hours")).await;
    prune(&database, Retention::default()).await;
    assert!(!database.client.insert(by_args()).await.unwrap().duplicate);
}

#[support::test]
async fn the_result_says_skipped_and_has_the_new_row_or_the_one_in_place(database: Database) {
    let sort = |strings: &[&str]| NewJob::new("sort", &json!({"strings": strings})).priority(3);
    let first = database.client.insert(sort(&["b", "a"])).unique(UniquePolicy::river().by_args()).await.unwrap();
    assert!(!first.duplicate);
    assert_eq!(first.job.args_as::<Value>().unwrap(), json!({"strings": ["b", "a"]}));
    database.set_state(first.id(), "running").await;
    let insert = database.client.insert(sort(&["b", "a"])).priority(9).unique(UniquePolicy::river().by_args());
    let second = insert.await.unwrap();
    assert!(second.duplicate);
    let row = second.job;
    assert_eq!((row.id, row.state, row.priority), (first.id(), JobState::Running, 3), "as it is in the database");
    assert_eq!(row.args_as::<Value>().unwrap(), json!({"strings": ["b", "a"]}));
}

/// A job is inserted once and may still be worked twice, when its completion was lost; the key is
/// held all the while.
#[support::test(self::database_early_in(DAY))]
async fn a_unique_job_is_inserted_once_and_executed_at_least_once(database: Database) {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let work = async |job: RunningJob<ReconcileAccount>| {
        let run = RUNS.fetch_add(1, Ordering::SeqCst) + 1;
        let mut tx = job.client().pool().begin().await?;
        job.complete_in(&mut tx).await?;
        // The work is done, and its first record is lost.
        support::end(tx, run > 1).await;
        Ok::<_, BoxError>(())
    };
    let insert = || database.client.insert(ReconcileAccount { account_id: 1 });
    let first = insert().await.unwrap();
    database.start(quick(&database.client).worker(work)).await;
    database.until_state(first.id(), JobState::Completed).await;
    database.end().await;
    assert_eq!(RUNS.load(Ordering::SeqCst), 2);
    assert!(insert().await.unwrap().duplicate);
    assert_eq!(jobs(&database).await, 1);
}

#[support::test]
async fn a_partial_unique_index_over_each_rows_own_states_enforces_it(database: Database) {
    let index = "SELECT count(*) FROM pg_index
        WHERE indrelid = '{schema}.job'::regclass AND indisunique AND indpred IS NOT NULL";
    assert_eq!(database.number(index).await, 1);
    // Two rows of one key live side by side where their own states leave them out of the index.
    let add = |state: &str, mask: i16| {
        database.sql(&format!(
            "INSERT INTO {{schema}}.job (id, kind, state, unique_key, unique_states, finalized_at)
             VALUES (gen_random_uuid(), 'a', '{state}', 'k', {mask},
                CASE WHEN '{state}' = 'completed' THEN now() END)"
        ))
    };
    for (state, mask, fits) in [
        ("completed", UniqueScope::Active.states().bits(), true),
        ("completed", UniqueScope::Completed.states().bits(), true),
        ("available", UniqueScope::Active.states().bits(), false),
        ("available", StateSet::from(JobState::Running).bits(), true),
    ] {
        let added = sqlx::query(add(state, mask)).execute(database.pool()).await;
        assert_eq!(added.is_ok(), fits, "{state} {mask}");
    }
}
