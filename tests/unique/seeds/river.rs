//! River: the page on its unique jobs, and the hard edges of its client that are not on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::datetime;
use uniqueue::{
    BoxError, InsertOptions, Job, JobState, NewJob, OnReentry, Outcome, Retention, RunningJob, StateSet, UniqueKey,
    UniquePolicy, UniqueScope,
};

use super::{DAY, HOUR, MINUTE, Stage, claim, failure, jobs, prune, quick, race, until};
use support::{Database, WAIT, job};

/// The page's args, with options that every insert of the type inherits.
#[derive(Deserialize, Serialize)]
struct ReconcileAccount {
    account_id: u64,
}

impl Job for ReconcileAccount {
    const KIND: &'static str = "reconcile_account";

    fn options() -> InsertOptions {
        InsertOptions::new().unique(UniquePolicy::river().by_args().window(DAY))
    }
}

/// A `reconcile_account` with these args and options, due in a century, so that no test meets a
/// window's end.
fn reconcile(args: Value, policy: UniquePolicy) -> NewJob {
    NewJob::new("reconcile_account", &args).unique(policy).scheduled_at(datetime!(2126-02-12 15:21 UTC))
}

/// A database, and time for a test of jobs that are due now: a window of this length that is about to end is waited
/// for.
async fn database_early_in(length: Duration) -> Database {
    let database = Database::new().await;
    let now = database.client.database_time().await.expect("the time");
    let left = uniqueue::period::window(now, length).expect("a window").end().expect("an end") - now;
    if left < WAIT {
        tokio::time::sleep(left.unsigned_abs()).await;
    }
    database
}

/// Whether the second of two jobs would be a duplicate of the first.
async fn is_duplicate(database: &Database, first: NewJob, second: NewJob) -> bool {
    database.execute("DELETE FROM {schema}.job").await;
    let first = database.client.insert(first).await.expect("the first");
    let second = database.client.insert(second).await.expect("the second");
    assert!(!first.duplicate);
    assert_eq!(second.duplicate, second.id() == first.id());
    second.duplicate
}

// Unique properties.

/// Only one exists for a given set of properties, however many try at once.
#[tokio::test]
async fn only_one_job_exists_for_a_set_of_properties() {
    let database = Database::with_connections(16).await;
    let policy = UniquePolicy::river().by_args().by_queue().window(DAY).states(UniqueScope::Completed);
    let answers = race(&database, 16, || reconcile(json!({"account_id": 1}), policy.clone())).await;
    let is_new = |answer: &&uniqueue::Result<uniqueue::Inserted>| !answer.as_ref().unwrap().duplicate;
    assert_eq!(answers.iter().filter(is_new).count(), 1);
    assert_eq!(jobs(&database).await, 1);
}

/// Options of the type and options of the call both reach an insert, one in a transaction, and a
/// bulk one; the derive macro says the same as the trait.
#[tokio::test]
async fn unique_options_come_from_the_type_or_from_the_call_in_every_kind_of_insert() {
    #[derive(Deserialize, Job, Serialize)]
    #[job(kind = "reconcile_account", unique(args, window = "P1D", like = "river"))]
    struct Derived {
        account_id: u64,
    }
    assert_eq!(Derived::options(), ReconcileAccount::options());
    assert_eq!(Derived::KIND, ReconcileAccount::KIND);

    let database = database_early_in(DAY).await;
    let client = &database.client;
    let account = |account_id| ReconcileAccount { account_id };
    let policy = || UniquePolicy::river().by_args().window(DAY);
    let by_name = |account_id: u64| NewJob::new("reconcile_account", &json!({"account_id": account_id}));
    let first = client.insert(account(1)).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let answers = [
        client.insert(Derived { account_id: 1 }).await.unwrap(),
        client.insert(account(1)).tx(&mut tx).await.unwrap(),
        client.insert_many([account(1)]).tx(&mut tx).await.unwrap().remove(0),
        client.insert(by_name(1)).unique(policy()).await.unwrap(),
        client.insert(by_name(1)).unique(policy()).tx(&mut tx).await.unwrap(),
        client.insert_many([by_name(1).unique(policy())]).await.unwrap().remove(0),
    ];
    tx.commit().await.unwrap();
    for answer in answers {
        assert!(answer.duplicate);
        assert_eq!(answer.id(), first.id());
    }
}

/// The page's example: once a day an account, and another account is another job.
#[tokio::test]
async fn example_an_account_is_reconciled_once_a_day() {
    let database = database_early_in(DAY).await;
    let insert = |account_id| database.client.insert(ReconcileAccount { account_id });
    assert!(!insert(1).await.unwrap().duplicate);
    assert!(insert(1).await.unwrap().duplicate, "skipped, and no error");
    assert!(!insert(2).await.unwrap().duplicate);
}

/// Each property more lets more jobs in.
#[test]
fn each_property_makes_a_job_more_specific() {
    let variants = [
        ("reconcile_account", "default", json!({"account_id": 1})),
        ("reconcile_account", "default", json!({"account_id": 2})),
        ("reconcile_account", "other", json!({"account_id": 1})),
        ("reconcile_account", "other", json!({"account_id": 2})),
    ];
    let distinct = |policy: UniquePolicy| {
        let keys = variants.iter().map(|(kind, queue, args)| claim(&policy, kind, queue, args).unwrap().key);
        keys.collect::<std::collections::BTreeSet<_>>().len()
    };
    let base = UniquePolicy::river().window(DAY);
    assert_eq!(distinct(base.clone()), 1);
    assert_eq!(distinct(base.clone().by_args()), 2);
    assert_eq!(distinct(base.clone().by_queue()), 2);
    assert_eq!(distinct(base.by_args().by_queue()), 4);
}

/// The kind always counts.
#[tokio::test]
async fn the_kind_always_counts() {
    let database = Database::new().await;
    let policy = UniquePolicy::river().by_args();
    let of = |kind: &str| NewJob::new(kind, &json!({"account_id": 1})).unique(policy.clone());
    assert!(!is_duplicate(&database, of("reconcile_account"), of("close_account")).await);
    assert!(is_duplicate(&database, of("reconcile_account"), of("reconcile_account")).await);
}

/// By period alone there is one of a kind a day; by args too, one of each set of args.
#[tokio::test]
async fn by_period_alone_and_by_period_and_args() {
    let database = Database::new().await;
    let account = |id: u64| json!({"account_id": id});
    let daily = || UniquePolicy::river().window(DAY);
    assert!(is_duplicate(&database, reconcile(account(1), daily()), reconcile(account(2), daily())).await);
    let both = || daily().by_args();
    assert!(!is_duplicate(&database, reconcile(account(1), both()), reconcile(account(2), both())).await);
    assert!(is_duplicate(&database, reconcile(account(1), both()), reconcile(account(1), both())).await);
}

/// Empty options enforce nothing.
#[tokio::test]
async fn empty_options_enforce_nothing() {
    let database = Database::new().await;
    let plain = || reconcile(json!({}), UniquePolicy::river());
    assert!(!is_duplicate(&database, plain(), plain()).await);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE unique_key IS NOT NULL").await, 0);
}

// By args.

/// By args: accounts 1 and 2 coexist, a second account 1 is skipped.
#[tokio::test]
async fn by_args_lets_other_args_in_and_skips_equal_ones() {
    let database = Database::new().await;
    let by_args = |id: u64| reconcile(json!({"account_id": id}), UniquePolicy::river().by_args());
    assert!(!is_duplicate(&database, by_args(1), by_args(2)).await);
    assert!(is_duplicate(&database, by_args(1), by_args(1)).await);
}

/// The order of members makes no difference, and here not at any level, where River sorts the
/// first level only.
#[tokio::test]
async fn member_order_makes_no_difference_at_any_level() {
    let database = Database::new().await;
    let of = |text: &str| reconcile(serde_json::from_str(text).unwrap(), UniquePolicy::river().by_args());
    let first = of(r#"{"a": 1, "b": {"c": [{"d": 1, "e": 2}], "f": 3}}"#);
    let second = of(r#"{"b": {"f": 3, "c": [{"e": 2, "d": 1}]}, "a": 1}"#);
    assert!(is_duplicate(&database, first, second).await);
}

/// Marked fields count and the others do not: one job a customer, whatever its trace.
#[tokio::test]
async fn marked_fields_count_and_the_others_do_not() {
    #[derive(Deserialize, Job, Serialize)]
    #[job(kind = "reconcile_account", unique(like = "river"))]
    struct ReconcileCustomer {
        #[job(unique)]
        customer_id: u64,
        trace_id: String,
    }
    let database = Database::new().await;
    let of = |customer_id, trace: &str| NewJob::from(ReconcileCustomer { customer_id, trace_id: trace.to_owned() });
    assert!(is_duplicate(&database, of(1, "a"), of(1, "b")).await);
    assert!(!is_duplicate(&database, of(1, "a"), of(2, "a")).await);
    let policy = UniquePolicy::river().by_arg_fields(["customer_id"]);
    assert_eq!(ReconcileCustomer::options(), InsertOptions::new().unique(policy));
}

// By period.

/// The page's quarter of an hour: 15:21 and 15:28 are one, 15:31 is the next.
#[tokio::test]
async fn by_period_rounds_down_to_a_multiple_of_the_period() {
    let database = Database::new().await;
    let at = |due: OffsetDateTime| job("a").scheduled_at(due).unique(UniquePolicy::river().window(15 * MINUTE));
    let first = || at(datetime!(2126-02-12 15:21:00 UTC));
    for (due, expected) in [
        (datetime!(2126-02-12 15:28:00 UTC), true),
        (datetime!(2126-02-12 15:31:00 UTC), false),
        (datetime!(2126-02-12 15:15:00 UTC), true),
        (datetime!(2126-02-12 15:29:59.999 UTC), true),
        (datetime!(2126-02-12 15:30:00 UTC), false),
        (datetime!(2126-02-12 15:14:59 UTC), false),
    ] {
        assert_eq!(is_duplicate(&database, first(), at(due)).await, expected, "{due}");
    }
}

/// A job without a time of its own falls into the window of the database's now.
#[tokio::test]
async fn by_period_takes_the_time_of_the_insert() {
    let database = database_early_in(15 * MINUTE).await;
    let policy = UniquePolicy::river().window(15 * MINUTE);
    let row = database.client.insert(job("a").unique(policy.clone())).await.unwrap().job;
    let subject = uniqueue::Subject {
        kind: "a",
        queue: "default",
        args: &json!({}),
        meta: &json!({}),
        window_at: Some(row.created_at),
    };
    assert_eq!(row.unique_key, policy.resolve(&subject).unwrap().map(|claim| claim.key));
    let start = uniqueue::period::window(row.created_at, 15 * MINUTE).unwrap().fingerprint();
    let canonical = format!(r#"{{"period":"{start}","type":"a"}}"#);
    assert_eq!(policy.canonical(&subject).unwrap().unwrap(), canonical);
}

/// The period goes together with every other property.
#[tokio::test]
async fn by_period_goes_together_with_the_other_properties() {
    let database = Database::new().await;
    let policy = || UniquePolicy::river().window(HOUR).by_args().by_queue().states(UniqueScope::Active);
    let one = || reconcile(json!({"account_id": 1}), policy());
    assert!(is_duplicate(&database, one(), one()).await);
    assert!(!is_duplicate(&database, one(), one().queue("other")).await);
    assert!(!is_duplicate(&database, one(), one().scheduled_at(datetime!(2126-02-12 16:00 UTC))).await);
}

// By queue.

/// The page's example: skipped in the same queue, let into another.
#[tokio::test]
async fn by_queue_skips_in_the_same_queue_and_lets_into_another() {
    let database = Database::new().await;
    let on = |queue: &str| reconcile(json!({}), UniquePolicy::river().by_queue()).queue(queue);
    assert!(is_duplicate(&database, on("default"), on("default")).await);
    assert!(!is_duplicate(&database, on("default"), on("high_priority")).await);
}

// By state.

/// The default is all states but cancelled and discarded.
#[tokio::test]
async fn by_state_defaults_to_all_but_cancelled_and_discarded() {
    use JobState::{Available, Completed, Pending, Retryable, Running, Scheduled};
    let listed = StateSet::of(&[Available, Completed, Pending, Running, Retryable, Scheduled]);
    assert_eq!(UniqueScope::Completed.states(), listed);
    let database = Database::new().await;
    for state in JobState::ALL {
        database.execute("DELETE FROM {schema}.job").await;
        let by_args = || reconcile(json!({}), UniquePolicy::river().by_args());
        let first = database.client.insert(by_args()).await.unwrap();
        database.set_state(first.id(), state.as_str()).await;
        let second = database.client.insert(by_args()).await.unwrap();
        assert_eq!(second.duplicate, listed.contains(state), "{state}");
    }
}

/// Without completed, each job that completes lets the next one in.
#[tokio::test]
async fn without_completed_each_completion_lets_the_next_one_in() {
    let database = Database::new().await;
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
        stage.end(Outcome::complete());
        until(&database, first.id(), JobState::Completed).await;
    }
    stage.stop().await;
}

/// River requires four states in the list. Here any set will do, since every way through the
/// states has an answer to a rival.
#[tokio::test]
async fn no_state_is_required() {
    let database = Database::new().await;
    let mut stage = Stage::of::<ReconcileAccount>(&database).await;
    for required in [JobState::Pending, JobState::Scheduled, JobState::Available, JobState::Running] {
        let states = UniqueScope::Completed.states().without(required);
        let insert = || {
            database.client.insert(ReconcileAccount { account_id: 1 }).unique_key(UniqueKey::raw("k").states(states))
        };
        let first = insert().await.unwrap();
        assert_eq!(stage.started().await, first.id());
        stage.end(failure());
        until(&database, first.id(), JobState::Retryable).await;
        database.pass(HOUR).await;
        assert_eq!(stage.started().await, first.id());
        stage.end(Outcome::complete());
        until(&database, first.id(), JobState::Completed).await;
        assert!(insert().await.unwrap().duplicate, "and completed still claims");
        database.execute("DELETE FROM {schema}.job").await;
    }
    stage.stop().await;
}

/// With retryable out of the list an erroring job may find its key taken. River discards it; here
/// that is asked for, and the default is that no job is lost.
#[tokio::test]
async fn an_erroring_job_whose_key_was_taken_is_discarded_only_where_the_policy_asks() {
    let database = Database::new().await;
    let mut stage = Stage::of::<ReconcileAccount>(&database).await;
    for (account_id, on_reentry) in [(1, OnReentry::GoOn), (2, OnReentry::Discard)] {
        let states = UniqueScope::Completed.states().without(JobState::Retryable);
        let policy = UniquePolicy::river().by_args().states(states).on_reentry(on_reentry);
        let insert = || database.client.insert(ReconcileAccount { account_id }).unique(policy.clone());
        let first = insert().await.unwrap();
        stage.started().await;
        stage.end(failure());
        until(&database, first.id(), JobState::Retryable).await;
        let rival = insert().scheduled_in(DAY).await.unwrap();
        assert!(!rival.duplicate);
        database.execute(&format!("UPDATE {{schema}}.job SET scheduled_at = now() WHERE id = '{}'", first.id())).await;
        if on_reentry == OnReentry::GoOn {
            assert_eq!(stage.started().await, first.id());
            stage.end(Outcome::complete());
            until(&database, first.id(), JobState::Completed).await;
        } else {
            let row = until(&database, first.id(), JobState::Discarded).await;
            assert!(row.errors.last().unwrap().error.contains("re-entry"), "{:?}", row.errors);
        }
        let holder = rival.job.unique_key.as_deref().unwrap();
        assert_eq!(database.client.holder(holder).await.unwrap().unwrap().id, rival.id());
    }
    stage.stop().await;
}

// Retention.

/// Completed jobs are kept for a day, and with one its claim goes: without a period there may be
/// a new job every day.
#[tokio::test]
async fn a_completed_job_keeps_its_claim_until_it_is_pruned_after_a_day() {
    let day = Retention::forever().completed(DAY).cancelled(DAY).discarded(7 * DAY);
    assert_eq!(Retention::default(), day);
    let database = Database::new().await;
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

// Skipped inserts.

/// The result says whether the insert was skipped, and has the new row or the one in place.
#[tokio::test]
async fn the_result_says_skipped_and_has_the_new_row_or_the_one_in_place() {
    let database = Database::new().await;
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

// At least once.

/// A job is inserted once and may still be worked twice, when its completion was lost; the key is
/// held all the while.
#[tokio::test]
async fn a_unique_job_is_inserted_once_and_executed_at_least_once() {
    let database = database_early_in(DAY).await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let work = move |job: RunningJob<ReconcileAccount>| {
        let counted = counted.clone();
        async move {
            let run = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let mut tx = job.client().pool().begin().await?;
            job.complete_in(&mut tx).await?;
            if run == 1 {
                // The work is done and its record is lost.
                tx.rollback().await?;
            } else {
                tx.commit().await?;
            }
            Ok::<_, BoxError>(())
        }
    };
    let insert = || database.client.insert(ReconcileAccount { account_id: 1 });
    let first = insert().await.unwrap();
    let runner = quick(&database).worker(work).start().await.unwrap();
    until(&database, first.id(), JobState::Completed).await;
    runner.stop().await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert!(insert().await.unwrap().duplicate);
    assert_eq!(jobs(&database).await, 1);
}

// The index.

/// A partial unique index enforces it, over each row's own states.
#[tokio::test]
async fn a_partial_unique_index_over_each_rows_own_states_enforces_it() {
    let database = Database::new().await;
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

// Hard edges of River's client, each of which is gone here.

/// River: the same key twice in one bulk insert is an error that ends the transaction.
#[tokio::test]
async fn edge_the_same_key_twice_in_one_bulk_insert_folds() {
    let database = database_early_in(DAY).await;
    let mut tx = database.pool().begin().await.unwrap();
    let batch = [1, 2, 1, 1].map(|account_id| ReconcileAccount { account_id });
    let answers = database.client.insert_many(batch).tx(&mut tx).await.unwrap();
    assert_eq!(answers.iter().map(|answer| answer.duplicate).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!((answers[2].id(), answers[3].id()), (answers[0].id(), answers[0].id()));
    database.client.insert(job("after")).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(jobs(&database).await, 3);
}

/// River: the period comes from the clock even where the job has a time of its own.
#[tokio::test]
async fn edge_the_jobs_own_time_decides_its_period() {
    let database = Database::new().await;
    let daily = || job("a").unique(UniquePolicy::river().window(DAY));
    let on = |day: u8| daily().scheduled_at(datetime!(2126-02-01 12:00 UTC).replace_day(day).unwrap());
    assert!(!is_duplicate(&database, daily(), on(12)).await);
    assert!(!is_duplicate(&database, on(12), on(13)).await);
    assert!(is_duplicate(&database, on(12), on(12)).await);
    // A delay counts from now, by the same clock.
    assert!(!is_duplicate(&database, daily(), daily().scheduled_in(DAY)).await);
}

/// River: the period's key depends on the host's time zone.
#[tokio::test]
async fn edge_no_time_zone_changes_a_periods_key() {
    let database = database_early_in(DAY).await;
    let daily = || job("a").unique(UniquePolicy::river().window(DAY));
    let mut keys = Vec::new();
    for zone in ["UTC", "Asia/Tokyo", "America/Los_Angeles", "Pacific/Kiritimati"] {
        let mut tx = database.pool().begin().await.unwrap();
        sqlx::query(database.sql(&format!("SET LOCAL TIME ZONE '{zone}'"))).execute(&mut *tx).await.unwrap();
        keys.push(database.client.insert(daily()).tx(&mut tx).await.unwrap().job.unique_key);
        tx.rollback().await.unwrap();
    }
    assert!(keys.iter().all(|key| *key == keys[0]));
    // One instant, in three clients' zones.
    let at = |due| daily().scheduled_at(due);
    let noon = || at(datetime!(2126-02-12 02:00 UTC));
    for elsewhere in [datetime!(2126-02-12 11:00 +9), datetime!(2126-02-11 18:00 -8), datetime!(2126-02-12 16:00 +14)] {
        assert!(is_duplicate(&database, noon(), at(elsewhere)).await, "{elsewhere}");
    }
}

/// River: a duplicate under exclude-kind rewrites the holder's kind.
#[tokio::test]
async fn edge_a_duplicate_of_another_kind_leaves_the_holder_as_it_is() {
    let database = Database::new().await;
    let of = |kind: &str| NewJob::new(kind, &json!({"user": 1})).unique(UniquePolicy::river().by_args().exclude_kind());
    let first = database.client.insert(of("push")).await.unwrap();
    let second = database.client.insert(of("email")).await.unwrap();
    assert!(second.duplicate);
    assert_eq!(second.job.kind.as_str(), "push");
    assert_eq!(database.client.job(first.id()).await.unwrap().unwrap().kind.as_str(), "push");
}

/// River: field names with a dot or a star are taken for paths, so that distinct args are one.
#[tokio::test]
async fn edge_field_names_with_dots_and_stars_are_names() {
    let database = Database::new().await;
    for name in ["a.b", "a*", "*", "a.*.b", "#", "a|b", "@this"] {
        let of = |value: u32| {
            let args = json!({name: value, "a": {"b": 1}, "noise": value});
            reconcile(args, UniquePolicy::river().by_arg_fields([name]))
        };
        assert!(!is_duplicate(&database, of(1), of(2)).await, "{name}");
        assert!(is_duplicate(&database, of(1), of(1)).await, "{name}");
    }
}

/// River: nested member order, 1 and 1.0, and two spellings of é make different keys.
#[tokio::test]
async fn edge_equal_values_have_one_key_however_they_are_written() {
    let database = Database::new().await;
    let of = |text: &str| {
        let args = serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
        NewJob::from_json("a", args).unique(UniquePolicy::river().by_args())
    };
    for (one, other) in [
        (r#"{"a": {"b": 1, "c": 2}}"#, r#"{"a": {"c": 2, "b": 1}}"#),
        (r#"{"n": 1}"#, r#"{"n": 1.0}"#),
        (r#"{"n": 100}"#, r#"{"n": 1e2}"#),
        (r#"{"s": "é"}"#, "{\"s\": \"e\u{301}\"}"),
        ("{\"e\u{301}\": 1}", r#"{"\u00e9": 1}"#),
    ] {
        assert!(is_duplicate(&database, of(one), of(other)).await, "{one} {other}");
    }
    let large = [r#"{"id": 9007199254740993}"#, r#"{"id": 9007199254740992}"#];
    assert!(!is_duplicate(&database, of(large[0]), of(large[1])).await, "large ids keep all their digits");
}

/// River: bringing a finished job back whose key is taken is a bare 23505.
#[tokio::test]
async fn edge_a_finished_job_whose_key_is_taken_comes_back_without_its_claim() {
    let database = database_early_in(DAY).await;
    let insert = || database.client.insert(ReconcileAccount { account_id: 1 });
    let first = insert().await.unwrap();
    database.set_state(first.id(), "discarded").await;
    let second = insert().await.unwrap();
    assert!(!second.duplicate);
    // What every way back does: yield in the statement that moves the job, then take the claim.
    let back = format!(
        "WITH back AS (
            UPDATE {{schema}}.job SET state = 'available', finalized_at = NULL,
                unique_yielded = {{schema}}._enters_claim(unique_states, state, 'available')
            WHERE id = '{}'
            RETURNING id
        )
        SELECT cardinality({{schema}}._take_claims(array_agg(id)))::bigint FROM back",
        first.id()
    );
    assert_eq!(database.number(&back).await, 0, "no job is discarded");
    let row = database.client.job(first.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.claims), (JobState::Available, false));
    let key = second.job.unique_key.clone().unwrap();
    assert_eq!(database.client.holder(&key).await.unwrap().unwrap().id, second.id());
}

/// The same by a statement of one's own: a bare one meets the index, one that yields does not.
#[tokio::test]
async fn edge_an_operators_own_statement_brings_a_job_back_when_it_yields_the_claim() {
    let database = database_early_in(DAY).await;
    let mut stage = Stage::of::<ReconcileAccount>(&database).await;
    let insert = || database.client.insert(ReconcileAccount { account_id: 1 });
    let first = insert().await.unwrap();
    stage.started().await;
    stage.end(Outcome::discard("no use"));
    until(&database, first.id(), JobState::Discarded).await;
    let second = insert().await.unwrap();
    assert_eq!(stage.started().await, second.id());
    let back = |more: &str| {
        let set = format!("state = 'available', finalized_at = NULL{more}");
        database.sql(&format!("UPDATE {{schema}}.job SET {set} WHERE id = '{}'", first.id()))
    };
    let error = sqlx::query(back("")).execute(database.pool()).await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().code().unwrap(), "23505");
    sqlx::query(back(", unique_yielded = true")).execute(database.pool()).await.unwrap();
    stage.end(Outcome::discard("no use"));
    until(&database, second.id(), JobState::Discarded).await;
    // Since the key is free by now, it takes its claim back on its way.
    assert_eq!(stage.started().await, first.id());
    stage.end(Outcome::complete());
    assert!(until(&database, first.id(), JobState::Completed).await.claims);
    stage.stop().await;
}

/// River: two retryable twins with an odd mask make the scheduler fail for ever, and jobs that
/// have nothing to do with them never run.
#[tokio::test]
async fn edge_two_retryable_twins_stop_no_schedule() {
    let database = Database::new().await;
    let odd = || UniqueKey::raw("k").states([JobState::Available, JobState::Running]);
    let mut waiting = Vec::new();
    for account_id in 0..2 {
        let twin = database.client.insert(ReconcileAccount { account_id }).unique_key(odd()).await.unwrap();
        assert!(!twin.duplicate);
        database.set_state(twin.id(), "retryable").await;
        waiting.push(twin.id());
    }
    let unrelated = database.client.insert(ReconcileAccount { account_id: 9 }).scheduled_in(MINUTE).await.unwrap();
    waiting.push(unrelated.id());
    database.pass(MINUTE).await;
    let work = |_: RunningJob<ReconcileAccount>| async {};
    let runner = quick(&database).worker(work).start().await.unwrap();
    for id in waiting {
        until(&database, id, JobState::Completed).await;
    }
    runner.stop().await.unwrap();
}

/// River: a stale worker's completion is applied to the next attempt.
#[tokio::test]
async fn edge_a_stale_completion_is_not_applied_to_the_next_attempt() {
    let database = Database::new().await;
    let mut stage = Stage::of::<ReconcileAccount>(&database).await;
    let first = database.client.insert(ReconcileAccount { account_id: 1 }).await.unwrap();
    stage.started().await;
    // Meanwhile the job is in its second attempt, in the hands of another runner that lives.
    // One statement, so that no rescuer sees it running without a live runner.
    let taken = "WITH other AS (
            INSERT INTO {schema}.runner (id, name, queues, leased_until, knows_groups)
            VALUES (gen_random_uuid(), 'other', '{}', now() + interval '1 hour', true)
            RETURNING id
        )
        UPDATE {schema}.job SET worker = other.id, attempt = 2 FROM other";
    database.execute(taken).await;
    stage.end(Outcome::complete());
    stage.stop().await;
    let row = database.client.job(first.id()).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempt, row.claims), (JobState::Running, 2, true));
}

/// River: a dead worker's job is rescued after an hour. Here it is back when the lease ran out,
/// with its claim.
#[tokio::test]
async fn edge_a_dead_workers_job_is_back_within_its_lease() {
    let database = database_early_in(DAY).await;
    let first = database.client.insert(ReconcileAccount { account_id: 1 }).await.unwrap();
    database.set_state(first.id(), "running").await;
    database.execute("UPDATE {schema}.job SET attempt = 1").await;
    let mut tx = database.pool().begin().await.unwrap();
    assert!(database.client.insert(ReconcileAccount { account_id: 1 }).tx(&mut tx).await.unwrap().duplicate);
    tx.commit().await.unwrap();
    let lease = Duration::from_secs(1);
    let work = |_: RunningJob<ReconcileAccount>| async {};
    let runner = quick(&database).lease(lease).worker(work).start().await.unwrap();
    let row = until(&database, first.id(), JobState::Completed).await;
    // The first crash uses up no attempt.
    assert_eq!((row.attempt, row.crashes), (1, 1));
    assert!(row.errors[0].error.contains("rescued"), "{:?}", row.errors);
    assert!(row.claims);
    runner.stop().await.unwrap();
}

/// River: the leader discards jobs of kinds that it does not know. Here they are promoted and
/// rescued like any other, and left to runners with a worker for their kind.
#[tokio::test]
async fn edge_unknown_kinds_are_never_discarded() {
    let database = Database::new().await;
    let unknown = |text: &str| job("unknown").unique_key(UniqueKey::raw(text).scope(UniqueScope::Active));
    let due = database.client.insert(unknown("due")).scheduled_in(MINUTE).await.unwrap();
    database.pass(MINUTE).await;
    let lost = database.client.insert(unknown("lost")).await.unwrap();
    database.set_state(lost.id(), "running").await;
    let work = |_: RunningJob<ReconcileAccount>| async {};
    let runner = quick(&database).lease(Duration::from_secs(1)).worker(work).start().await.unwrap();
    for id in [due.id(), lost.id()] {
        let row = until(&database, id, JobState::Available).await;
        assert!(row.claims);
    }
    runner.stop().await.unwrap();
}
