//! The hard edges of the client. Three more are tests of the rules: of the retry of a finished job whose key is taken, of a stale
//! result, and of the jobs of a dead runner.

use super::{ReconcileAccount, database_early_in, is_duplicate, reconcile};
use crate::seeds::{Stage, jobs};
use support::prelude::*;

/// River: the same key twice in one bulk insert is an error that ends the transaction.
#[support::test(self::database_early_in(DAY))]
async fn edge_the_same_key_twice_in_one_bulk_insert_folds(database: Database) {
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
#[support::test]
async fn edge_the_jobs_own_time_decides_its_period(database: Database) {
    let daily = || job("a").unique(UniquePolicy::river().window(DAY));
    let on = |day: u8| daily().scheduled_at(datetime!(2126-02-01 12:00 UTC).replace_day(day).unwrap());
    assert!(!is_duplicate(&database, daily(), on(12)).await);
    assert!(!is_duplicate(&database, on(12), on(13)).await);
    assert!(is_duplicate(&database, on(12), on(12)).await);
    // A delay counts from now, by the same clock.
    assert!(!is_duplicate(&database, daily(), daily().scheduled_in(DAY)).await);
}

/// River: the period's key depends on the host's time zone.
#[support::test(self::database_early_in(DAY))]
async fn edge_no_time_zone_changes_a_periods_key(database: Database) {
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
#[support::test]
async fn edge_a_duplicate_of_another_kind_leaves_the_holder_as_it_is(database: Database) {
    let of = |kind: &str| NewJob::new(kind, &json!({"user": 1})).unique(UniquePolicy::river().by_args().exclude_kind());
    let first = database.client.insert(of("push")).await.unwrap();
    let second = database.client.insert(of("email")).await.unwrap();
    assert!(second.duplicate);
    assert_eq!(second.job.kind.as_str(), "push");
    assert_eq!(database.client.job(first.id()).await.unwrap().unwrap().kind.as_str(), "push");
}

/// River: field names with a dot or a star are taken for paths, so that distinct args are one.
#[support::test]
async fn edge_field_names_with_dots_and_stars_are_names(database: Database) {
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
#[support::test]
async fn edge_equal_values_have_one_key_however_they_are_written(database: Database) {
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

/// The same by a statement of one's own: a bare one meets the index, one that yields does not.
#[support::test(self::database_early_in(DAY))]
async fn edge_an_operators_own_statement_brings_a_job_back_when_it_yields_the_claim(database: Database) {
    let mut stage = Stage::of::<ReconcileAccount>(&database).await;
    let insert = || database.client.insert(ReconcileAccount { account_id: 1 });
    let first = insert().await.unwrap();
    stage.works(first.id(), Outcome::discard("no use"), JobState::Discarded).await;
    let second = insert().await.unwrap();
    assert_eq!(stage.started().await, second.id());
    let back = |more: &str| {
        let set = format!("state = 'available', finalized_at = NULL{more}");
        database.sql(&format!("UPDATE {{schema}}.job SET {set} WHERE id = '{}'", first.id()))
    };
    let error = sqlx::query(back("")).execute(database.pool()).await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().code().unwrap(), "23505");
    sqlx::query(back(", unique_yielded = true")).execute(database.pool()).await.unwrap();
    stage.ends(second.id(), Outcome::discard("no use"), JobState::Discarded).await;
    // Since the key is free by now, it takes its claim back on its way.
    assert!(stage.works(first.id(), Outcome::complete(), JobState::Completed).await.claims);
}

/// River: two retryable twins with an odd mask make the scheduler fail for ever, and jobs that
/// have nothing to do with them never run.
#[support::test]
async fn edge_two_retryable_twins_stop_no_schedule(database: Database) {
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
    database.start(quick(&database.client).worker(work)).await;
    for id in waiting {
        database.until_state(id, JobState::Completed).await;
    }
}

/// River: the leader discards jobs of kinds that it does not know. Here they are promoted and
/// rescued like any other, and left to runners with a worker for their kind.
#[support::test]
async fn edge_unknown_kinds_are_never_discarded(database: Database) {
    let unknown = |text: &str| job("unknown").unique_key(UniqueKey::raw(text).scope(UniqueScope::Active));
    let due = database.client.insert(unknown("due")).scheduled_in(MINUTE).await.unwrap();
    database.pass(MINUTE).await;
    let lost = database.client.insert(unknown("lost")).await.unwrap();
    database.set_state(lost.id(), "running").await;
    let work = |_: RunningJob<ReconcileAccount>| async {};
    database.start(quick(&database.client).lease(Duration::from_secs(1)).worker(work)).await;
    for id in [due.id(), lost.id()] {
        let row = database.until_state(id, JobState::Available).await;
        assert!(row.claims);
    }
}
