//! Periodic jobs: each slot once, over any number of runners, restarts and mistakes.

use uniqueue::CatchUp;
use uniqueue_admin::{PeriodicRow, PeriodicSource};

use super::caretaker;
use support::prelude::*;

const JOBS: &str = "SELECT count(*) FROM {schema}.job";

/// How many slots of a periodic job were run, and how many there are from its first to its last.
pub(super) async fn slots(database: &Database, name: &str) -> (i64, i64, i64) {
    let slots = format!("FROM {{schema}}.job WHERE meta -> 'periodic' ->> 'name' = '{name}'");
    (
        database.number(&format!("SELECT count(*) {slots}")).await,
        database.number(&format!("SELECT count(DISTINCT meta -> 'periodic' ->> 'slot') {slots}")).await,
        database
            .number(&format!(
                "SELECT coalesce(extract(epoch FROM max(scheduled_at) - min(scheduled_at))::bigint + 1, 0) {slots}"
            ))
            .await,
    )
}

/// A periodic job as it is stored.
pub(super) async fn stored(database: &Database, name: &str) -> PeriodicRow {
    Admin::new(&database.client).periodic().find(name).await.unwrap().unwrap()
}
/// As if no runner had read them for so long.
async fn miss(database: &Database, time: &str) {
    database.execute(&format!("UPDATE {{schema}}.periodic SET next_at = next_at - interval '{time}'")).await;
}

pub(super) async fn until_placed(database: &Database) {
    database.until("SELECT count(*) FROM {schema}.periodic WHERE next_at IS NULL", 0).await;
}

#[support::test]
async fn each_slot_is_run_once_over_any_number_of_runners(database: Database) {
    let every = |name: &str| PeriodicJob::every(name, SECOND, job("tick")).catch_up(CatchUp::All);
    for _ in 0..6 {
        database.start(caretaker(&database).periodic(every("a")).periodic(every("b")).periodic(every("c"))).await;
        tokio::time::sleep(Duration::from_millis(70)).await;
    }
    until_placed(&database).await;
    miss(&database, "450 s").await;
    let began = Instant::now();
    // No runner keeps a lease, so that all of them find the same slots due.
    while began.elapsed() < Duration::from_secs(4) || database.number(JOBS).await < 3 * 440 {
        database.execute("UPDATE {schema}.maintenance SET leased_until = now() - interval '1 s'").await;
        assert!(began.elapsed() < WAIT, "{} slots", database.number(JOBS).await);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    database.end().await;
    for name in ["a", "b", "c"] {
        let (jobs, distinct, span) = slots(&database, name).await;
        assert!(jobs >= 440, "{jobs}");
        assert_eq!((jobs, jobs), (distinct, span), "each slot once, none left out");
    }
}

#[support::test]
async fn of_many_who_run_the_same_slot_at_once_one_does(database: Database, client: &Client) {
    client.define_periodic(PeriodicJob::every("a", HOUR, job("tick"))).await.unwrap();
    let barrier = Arc::new(Barrier::new(8));
    let run = "SELECT count(*) FROM {schema}.run_periodic(
        'a', NULL, (SELECT starts_at FROM {schema}.periodic), ARRAY['2026-01-01 10:00+00', '2026-01-01 11:00+00']::timestamptz[], '2026-01-01 12:00+00')";
    let many = (0..8).map(|_| {
        let (pool, barrier, run) = (database.pool().clone(), barrier.clone(), database.sql(run));
        async move {
            let mut connection = pool.acquire().await.unwrap();
            barrier.wait().await;
            sqlx::query_scalar::<_, i64>(run).fetch_one(&mut *connection).await.unwrap()
        }
    });
    let mut ran = many.collect::<JoinSet<_>>().join_all().await;
    ran.sort_unstable();
    assert_eq!(ran, [0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(database.number(JOBS).await, 2);
    // Moving it back by hand does not run a slot twice: the id and the key of the slot's job prevent that.
    database.execute("UPDATE {schema}.periodic SET next_at = '2026-01-01 10:00+00'").await;
    let again = "SELECT string_agg(DISTINCT outcome, ' ') FROM {schema}.run_periodic(
        'a', '2026-01-01 10:00+00', (SELECT starts_at FROM {schema}.periodic), ARRAY['2026-01-01 10:00+00']::timestamptz[], '2026-01-01 12:00+00')";
    assert_eq!(database.text(again).await, "inserted");
    assert_eq!(database.number(JOBS).await, 2);
    database.execute("UPDATE {schema}.job SET id = gen_random_uuid()").await;
    database.execute("UPDATE {schema}.periodic SET next_at = '2026-01-01 10:00+00'").await;
    assert_eq!(database.text(again).await, "duplicate");
    assert_eq!(database.number(JOBS).await, 2);
}

#[tokio::test]
async fn missed_slots_are_caught_up_with_as_told_also_after_a_restart() {
    for (catch_up, expected) in [(CatchUp::Skip, 0), (CatchUp::Latest, 1), (CatchUp::All, 5)] {
        let database = Database::new().await;
        // So long that hardly ever a slot comes in the middle of the test.
        let periodic = || PeriodicJob::every("a", 1_000 * HOUR, job("tick")).catch_up(catch_up);
        database.start(caretaker(&database).periodic(periodic())).await;
        until_placed(&database).await;
        database.end().await;
        let next_at = stored(&database, "a").await.next_at;
        miss(&database, "5000 h").await;
        database.start(caretaker(&database).periodic(periodic())).await;
        eventually!(stored(&database, "a").await.next_at == next_at, "not caught up");
        database.end().await;
        // Unless one came after all.
        if stored(&database, "a").await.next_at == next_at {
            assert_eq!(database.number(JOBS).await, expected, "{catch_up:?}");
        }
    }
}

#[support::test]
async fn a_slots_job_tells_whose_it_is_and_is_scheduled_at_the_slot(database: Database) {
    database.start(caretaker(&database)).await;
    let tick = NewJob::new("tick", &json!({"n": 1})).queue("slow").priority(3).max_attempts(2).meta("cause", "test");
    database.client.define_periodic(PeriodicJob::cron("ticks", "* * * * * *", tick)).await.unwrap();
    eventually!(database.number(JOBS).await > 0, "no slot");
    database.end().await;
    let expected = "SELECT count(*) FROM {schema}.job WHERE kind = 'tick' AND queue = 'slow' AND priority = 3
        AND max_attempts = 2 AND args = '{\"n\": 1}' AND meta ->> 'cause' = 'test'
        AND meta -> 'periodic' ->> 'name' = 'ticks' AND meta -> 'periodic' ->> 'slot' = {schema}._slot_text(scheduled_at)
        AND unique_key = 'periodic:ticks:' || {schema}._slot_text(scheduled_at)
        AND id = {schema}._slot_id('ticks', scheduled_at) AND substr(id::text, 15, 1) = '7'
        AND id >= {schema}.id_at(scheduled_at) AND id < {schema}.id_at(scheduled_at + interval '1 ms')
        AND scheduled_at = date_trunc('second', scheduled_at) AND state = 'available'";
    assert_eq!(database.number(expected).await, database.number(JOBS).await);
    let row = stored(&database, "ticks").await;
    assert!(row.last_at.is_some() && row.last_job.is_some() && row.next_at > row.last_at, "{row:?}");
    assert_eq!((row.source, row.problem), (PeriodicSource::Database, None));
}

#[support::test]
async fn rows_inserted_in_plain_sql_run_and_bad_ones_say_why_and_stop_nobody(database: Database) {
    let insert = "INSERT INTO {schema}.periodic (name, kind, schedule, time_zone, unique_policy, args) VALUES
        ('bad schedule', 'tick', 'every now and then', 'UTC', NULL, '{}'),
        ('bad zone', 'tick', '* * * * * *', 'Europe/Atlantis', NULL, '{}'),
        ('bad kind', E'tick\\x01', '* * * * * *', 'UTC', NULL, '{}'),
        ('bad policy', 'tick', '* * * * * *', 'UTC', '{\"scope\": \"sometimes\"}', '{}'),
        ('good', 'tick', 'PT1S', 'UTC', NULL, '{\"n\": 1}')";
    database.execute(insert).await;
    database.start(caretaker(&database)).await;
    eventually!(slots(&database, "good").await.0 > 1, "the good one is held up");
    database.until("SELECT count(*) FROM {schema}.periodic WHERE problem IS NOT NULL", 4).await;
    for (name, said) in [
        ("bad schedule", "invalid schedule: "),
        ("bad zone", "unknown time zone: \"Europe/Atlantis\""),
        ("bad kind", "invalid kind"),
        ("bad policy", "scope"),
    ] {
        let row = stored(&database, name).await;
        assert!(row.problem.as_ref().is_some_and(|problem| problem.contains(said)), "{name}: {:?}", row.problem);
        assert_eq!(slots(&database, name).await.0, 0);
    }
    // Mended, it runs.
    database.execute("UPDATE {schema}.periodic SET time_zone = 'Europe/Berlin' WHERE name = 'bad zone'").await;
    eventually!(slots(&database, "bad zone").await.0 > 0, "mended in vain");
    assert_eq!(stored(&database, "bad zone").await.problem, None);
}

#[support::test]
async fn a_definition_in_code_updates_the_row_and_keeps_its_place_in_time(database: Database) {
    let old = PeriodicJob::cron("a", "0 9 * * *", job("old")).time_zone("Europe/Berlin");
    database.start(caretaker(&database).periodic(old)).await;
    until_placed(&database).await;
    database.end().await;
    let placed = stored(&database, "a").await;
    assert_eq!(placed.source, PeriodicSource::Code);
    assert!(Admin::new(&database.client).periodic().pause("a").await.unwrap());
    let define = async |periodic| {
        caretaker(&database).periodic(periodic).start().await.unwrap().stop().await.unwrap();
        stored(&database, "a").await
    };
    let same = define(PeriodicJob::cron("a", "0 9 * * *", job("new")).time_zone("Europe/Berlin")).await;
    assert_eq!((same.kind.as_str(), same.next_at, same.starts_at), ("new", placed.next_at, placed.starts_at));
    assert!(same.paused_at.is_some(), "an operator's pause outlives a restart");
    let other = define(PeriodicJob::cron("a", "0 10 * * *", job("new")).time_zone("Europe/Berlin")).await;
    assert!(other.next_at.is_none() && other.starts_at > placed.starts_at);
    // Taken out of the code it stays until it is removed.
    caretaker(&database).start().await.unwrap().stop().await.unwrap();
    assert_eq!(Admin::new(&database.client).periodic().list().await.unwrap().len(), 1);
    assert!(Admin::new(&database.client).periodic().remove("a").await.unwrap());
    assert!(!Admin::new(&database.client).periodic().remove("a").await.unwrap());
    assert!(Admin::new(&database.client).periodic().find("a").await.unwrap().is_none());
}

#[support::test]
async fn a_paused_one_runs_nothing_and_is_resumed_without_what_it_missed(database: Database) {
    let periodic = Admin::new(&database.client).periodic();
    database.client.define_periodic(PeriodicJob::every("a", HOUR, job("tick")).catch_up(CatchUp::All)).await.unwrap();
    database.client.define_periodic(PeriodicJob::every("b", SECOND, job("tock"))).await.unwrap();
    assert!(periodic.pause("a").await.unwrap());
    database.execute("UPDATE {schema}.periodic SET next_at = now() - interval '5 h' WHERE name = 'a'").await;
    database.start(caretaker(&database)).await;
    eventually!(slots(&database, "b").await.0 > 0, "the other is held up");
    assert_eq!(slots(&database, "a").await.0, 0);
    // At once, and not one of its slots.
    let now = periodic.run_now("a").await.unwrap().expect("a job");
    assert!(!now.duplicate);
    let now = now.job;
    assert_eq!(database.client.job(now).await.unwrap().unwrap().meta["periodic"], json!({"name": "a"}));
    assert_eq!(periodic.run_now("nobody").await.unwrap(), None);
    assert!(periodic.resume("a").await.unwrap());
    eventually!(stored(&database, "a").await.next_at.is_some(), "not placed");
    let row = stored(&database, "a").await;
    assert!(row.next_at.unwrap() > row.starts_at && row.paused_at.is_none());
    assert!(slots(&database, "a").await.0 <= 2, "at most the full hour came meanwhile");
    assert!(!periodic.pause("nobody").await.unwrap());
}

#[support::test]
async fn where_completed_jobs_are_not_kept_a_slot_still_runs_once(database: Database) {
    let (work, mut ran) = telling(|job| job.row().scheduled_at);
    let runner = database.runner().queue("default", 10).retention(Retention::forever().completed(Duration::ZERO));
    database.start(runner.prune_interval(Duration::from_millis(10)).worker(work)).await;
    database.client.define_periodic(PeriodicJob::every("a", HOUR, Task { n: 1 })).await.unwrap();
    until_placed(&database).await;
    let back = "UPDATE {schema}.periodic SET next_at = date_trunc('hour', now())";
    for _ in 0..3 {
        database.execute(back).await;
        eventually!(
            let row = stored(&database, "a").await;
            row.next_at > row.last_at, "the slot is not run"
        );
    }
    let slot = next(&mut ran).await;
    database.until("SELECT count(*) FROM {schema}.job WHERE state = 'completed'", 1).await;
    // The claim of the slot outlives the job's completion, so the same slot is a duplicate.
    let key = format!(
        "SELECT count(*) FROM {{schema}}.job WHERE claims AND unique_until > now() AND id = {{schema}}._slot_id('a', '{slot}')"
    );
    assert_eq!(database.number(&key).await, 1);
    assert!(ran.try_recv().is_err(), "the slot ran twice");
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "report")]
struct Report {
    #[job(unique)]
    n: u32,
}

#[support::test]
async fn a_job_with_a_policy_of_its_own_does_not_overlap_itself(database: Database) {
    let periodic = Admin::new(&database.client).periodic();
    let reject = UniqueKey::raw("k").on_conflict(OnConflict::Reject);
    database.client.define_periodic(PeriodicJob::every("ignores", SECOND, Report { n: 1 })).await.unwrap();
    database.client.define_periodic(PeriodicJob::every("rejects", SECOND, job("a").unique_key(reject))).await.unwrap();
    database.start(caretaker(&database)).await;
    for name in ["ignores", "rejects"] {
        eventually!(slots(&database, name).await.0 == 1, "no slot");
        let first = stored(&database, name).await.last_at;
        eventually!(stored(&database, name).await.last_at > first, "no further slot");
        let row = stored(&database, name).await;
        assert_eq!((slots(&database, name).await.0, row.problem), (1, None), "the first is not over");
        // Nor does a run by hand.
        let run = periodic.run_now(name).await.unwrap().expect("it is there");
        assert_eq!((run.duplicate, Some(run.job)), (true, row.last_job));
    }
    // The key is the one that an insert by hand has.
    assert!(database.client.insert(Report { n: 1 }).await.unwrap().duplicate);
    let first = stored(&database, "ignores").await.last_job.unwrap();
    database.set_state(first, "completed").await;
    eventually!(slots(&database, "ignores").await.0 == 2, "the next slot is not run");
}

#[support::test]
async fn what_can_never_run_is_refused_when_it_is_defined(database: Database) {
    let at = time::OffsetDateTime::UNIX_EPOCH;
    let windowed = UniquePolicy::new().window(HOUR);
    for (periodic, said) in [
        (PeriodicJob::cron("a", "0 25 * * *", job("a")), "invalid schedule: "),
        (
            PeriodicJob::cron("a", "0 9 * * *", job("a")).time_zone("Nowhere/Land"),
            "unknown time zone: \"Nowhere/Land\"",
        ),
        (PeriodicJob::every("a", Duration::from_millis(1500), job("a")), "invalid schedule: "),
        (PeriodicJob::every("a", Duration::ZERO, job("a")), "invalid schedule: "),
        (PeriodicJob::cron("", "0 9 * * *", job("a")), "invalid periodic job: must not be empty"),
        (PeriodicJob::cron("a", "0 9 * * *", job("")), "invalid kind: must not be empty"),
        (PeriodicJob::cron("a", "0 9 * * *", job("a").scheduled_at(at)), "start of its own: a"),
        (PeriodicJob::cron("a", "0 9 * * *", job("a").pending()), "start of its own: a"),
        (PeriodicJob::cron("a", "0 9 * * *", job("a").id(uniqueue::JobId::generate())), "must not have one: a"),
        (PeriodicJob::cron("a", "0 9 * * *", job("a").unique(windowed)), "must not have a window: a"),
    ] {
        let error = database.client.define_periodic(periodic.clone()).await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        let error = caretaker(&database).periodic(periodic).start().await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let twice = || PeriodicJob::cron("a", "0 9 * * *", job("a"));
    let error = caretaker(&database).periodic(twice()).periodic(twice()).start().await.unwrap_err().to_string();
    assert!(error.contains("given twice: a"), "{error}");
    assert!(Admin::new(&database.client).periodic().list().await.unwrap().is_empty());
    assert_eq!(database.number("SELECT count(*) FROM {schema}.runner").await, 0);
}
