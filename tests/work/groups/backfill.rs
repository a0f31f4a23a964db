//! Groups for queued jobs: what is changed, what is left, and that limits hold beside runners that fetch meanwhile.

use uniqueue_admin::{Backfill, BackfillReport};

use super::{HISTORY, assert_limits_were_kept};
use support::prelude::*;

fn numbered(n: usize) -> NewJob {
    NewJob::new("a", &json!({"n": n, "noise": "x"}))
}

fn by_n() -> UniquePolicy {
    UniquePolicy::new().by_arg_fields(["n"])
}

/// What a report counts, for comparing: jobs, unchanged, grouped, other group, running, unfit, contested.
fn counts(report: &BackfillReport) -> [u64; 7] {
    let BackfillReport { jobs, unchanged, grouped, other_group, running, unfit, contested, .. } = report;
    [*jobs, *unchanged, *grouped, *other_group, *running, *unfit, *contested]
}

#[support::test]
async fn after_a_backfill_a_job_has_the_group_that_an_insert_would_give_it(database: Database, client: &Client) {
    #[derive(Debug, Deserialize, Job, Serialize)]
    #[job(kind = "sync", group(customer), limit = 3)]
    struct Sync {
        customer: u32,
    }

    let id = client.insert(NewJob::new("sync", &json!({"customer": 7}))).await.unwrap().id();
    let ended = client.insert(NewJob::new("sync", &json!({"customer": 7}))).await.unwrap().id();
    database.set_state(ended, "completed").await;
    let report = Backfill::groups::<Sync>(client).await.unwrap();
    assert_eq!((counts(&report), report.is_settled()), ([1, 0, 1, 0, 0, 0, 0], true));
    let expected = client.insert(Sync { customer: 7 }).await.unwrap().job;
    let found = database.row(id).await;
    assert!(expected.group_key.is_some());
    let group = |job: &JobRow| (job.group_key.clone(), job.group_limit, job.in_order);
    assert_eq!(group(&found), group(&expected));
    assert_eq!(database.row(ended).await.group_key, None, "it is final");
    // By a name and a policy, in order, in each state in which a job waits.
    for (n, state) in ["available", "pending", "scheduled", "retryable"].into_iter().enumerate() {
        let id = client.insert(numbered(n)).await.unwrap().id();
        database.set_state(id, state).await;
    }
    let report = Backfill::groups_of(client, "a", by_n()).in_order().batch(3).await.unwrap();
    assert_eq!(counts(&report), [4, 0, 4, 0, 0, 0, 0]);
    let expected = client.insert(numbered(0).group_by(by_n()).in_order()).await.unwrap().job;
    let alike = format!(
        "SELECT count(*) FROM {{schema}}.job WHERE kind = 'a' AND in_order AND group_key = '{}'",
        expected.group_key.unwrap()
    );
    assert_eq!(database.number(&alike).await, 2);
    let report = Backfill::groups_of(client, "a", by_n()).in_order().await.unwrap();
    assert_eq!(counts(&report), [5, 5, 0, 0, 0, 0, 0]);
}

#[support::test]
async fn a_dry_run_of_groups_changes_nothing_and_tells_what_the_run_does(database: Database, client: &Client) {
    client.insert_many((0..30).map(numbered)).await.unwrap();
    client.insert(numbered(1).group("other")).await.unwrap();
    let runs = client.insert(numbered(2)).await.unwrap().id();
    database.set_state(runs, "running").await;
    client.insert(NewJob::new("a", &json!({"m": 1}))).await.unwrap();
    let rows = async || database.text("SELECT md5(string_agg(j::text, '' ORDER BY j.id)) FROM {schema}.job AS j").await;
    let before = rows().await;
    let mut parts = Vec::new();
    let dry = Backfill::groups_of(client, "a", by_n()).limit(2).batch(7).dry_run();
    let dry = dry.on_progress(|progress| parts.push(progress.part)).await.unwrap();
    assert_eq!(rows().await, before);
    assert_eq!((counts(&dry), dry.dry_run, dry.is_settled()), ([33, 0, 30, 1, 1, 1, 0], true, false));
    assert!(dry.unfit_jobs[0].problem.contains("\"n\""), "{dry:?}");
    assert!(parts.len() > 4 && parts.is_sorted() && parts.last() == Some(&1.0), "{parts:?}");
    let run = Backfill::groups_of(client, "a", by_n()).limit(2).batch(7).await.unwrap();
    assert_eq!(counts(&run), counts(&dry));
}

#[support::test]
async fn groups_that_jobs_have_change_only_when_asked(database: Database, client: &Client) {
    let other = client.insert(numbered(1).group("other").in_order()).await.unwrap().id();
    let unlimited = client.insert(numbered(2).group("all")).await.unwrap().id();
    let began = client.insert(numbered(3).group("all").in_order()).await.unwrap().id();
    for id in [other, began] {
        database.execute(&format!("UPDATE {{schema}}.job SET began = 1, attempt = 1 WHERE id = '{id}'")).await;
    }
    let backfill = || Backfill::groups_of(client, "a", UniqueKey::raw("all")).in_order();
    assert_eq!(counts(&backfill().await.unwrap()), [3, 1, 0, 2, 0, 0, 0]);
    assert_eq!(database.row(other).await.group_key.as_deref(), Some("other"));
    assert_eq!(counts(&backfill().overwrite().await.unwrap()), [3, 1, 2, 0, 0, 0, 0]);
    for id in [other, unlimited, began] {
        let found = database.row(id).await;
        assert_eq!((found.group_key.as_deref(), found.in_order), (Some("all"), true));
    }
    let first = format!("SELECT count(*) FROM {{schema}}.job WHERE began IS NOT NULL AND id = '{began}'");
    assert_eq!(database.number(&first).await, 1, "in its own line it stays first");
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE began IS NOT NULL").await, 1);
    // Out of order nothing has begun.
    let report = Backfill::groups_of(client, "a", UniqueKey::raw("all")).limit(5).overwrite().await.unwrap();
    assert_eq!(counts(&report), [3, 0, 3, 0, 0, 0, 0]);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE began IS NULL AND group_limit = 5").await, 3);
}

#[support::test]
async fn a_group_that_can_never_work_is_refused_before_a_job_is_read(database: Database, client: &Client) {
    #[derive(Debug, Deserialize, Job, Serialize)]
    #[job(kind = "plain")]
    struct Plain {
        n: u32,
    }

    let of = |policy: UniquePolicy| Backfill::groups_of(client, "a", policy);
    for (backfill, expected) in [
        (Backfill::groups::<Plain>(client), "the kind has no group"),
        (of(by_n()).limit(0), "invalid group_limit: must be 1 to 32767: 0"),
        (of(by_n()).limit(2).in_order(), "must be 1 for a job that is in_order: 2"),
        (of(by_n().window(HOUR)), "window"),
        (of(UniqueKey::raw("").into()), "key"),
        (of(by_n()).batch(0), "invalid batch: must be at least 1: 0"),
        (Backfill::groups_of(client, "", by_n()), "kind"),
    ] {
        let error = backfill.await.unwrap_err();
        assert!(!matches!(error, Error::Database(_)) && error.to_string().contains(expected), "{error}");
    }
}

#[support::test]
async fn a_job_that_is_locked_gets_its_group_when_the_lock_is_gone(database: Database, client: &Client) {
    let ids: Vec<_> = client.insert_many((0..3).map(numbered)).await.unwrap().iter().map(|job| job.id()).collect();
    let lock = format!("SELECT FROM {{schema}}.job WHERE id = '{}' FOR NO KEY UPDATE", ids[1]);
    let tx = database.begin(&lock).await;
    let (report, ()) = tokio::join!(Backfill::groups_of(client, "a", by_n()), async {
        database.until("SELECT count(*) FROM {schema}.job WHERE group_key IS NOT NULL", 2).await;
        tx.rollback().await.unwrap();
    });
    assert_eq!(counts(&report.unwrap()), [3, 0, 3, 0, 0, 0, 0]);
}

#[support::test(with_connections(5))]
async fn a_job_leaves_its_group_only_under_the_lock_of_its_queue(database: Database, client: &Client) {
    client.insert(numbered(1).group("old")).await.unwrap();
    // As a fetch that has counted the jobs of a group, and has not started the chosen ones yet.
    let fetch = database.begin("SELECT FROM {schema}._lock_queue('default')").await;

    let (report, ()) = tokio::join!(Backfill::groups_of(client, "a", UniqueKey::raw("new")).overwrite(), async {
        database.until_locked("%-- Puts jobs%", 1).await;
        database.until_locked("%-- Puts jobs%", 0).await;
        let regrouped = "SELECT count(*) FROM {schema}.job WHERE group_key = 'new'";
        assert_eq!(database.number(regrouped).await, 0, "the row was not to be had in time");
        fetch.rollback().await.unwrap();
    });
    assert_eq!(counts(&report.unwrap()), [1, 0, 1, 0, 0, 0, 0]);
}

#[support::test(with(HISTORY))]
async fn limits_hold_for_jobs_that_get_their_groups_while_runners_fetch(database: Database, client: &Client) {
    // Slow enough that the backfill comes to jobs that no runner has fetched ahead.
    let work = |n: usize| Work { deed: Deed::Plain, millis: (n % 3) as u64 + 5 };
    let jobs = soak(600, 1_500);
    client.insert_many((0..jobs).map(|n| NewJob::from(work(n)))).await.unwrap();
    let order = |n: usize| Order { concurrency: 2, ..Order::of(&database, &format!("r{n}")) };
    let runners: Vec<_> = (0..3).map(|n| RunnerProcess::start(&order(n))).collect();
    database.until("SELECT count(*) FROM (SELECT FROM {schema}.job WHERE attempt > 0 LIMIT 1) AS j", 1).await;
    // Two at once share the work, and jobs start without a group until they get one.
    let by_millis =
        || Backfill::groups_of(client, "deed", UniquePolicy::new().by_arg_fields(["millis"])).limit(2).batch(20);
    let (one, another) = tokio::join!(by_millis(), by_millis());
    let (one, another) = (one.unwrap(), another.unwrap());
    let grouped = one.grouped + another.grouped;
    assert!(grouped > 0, "all jobs had started before: {one:?} {another:?}");
    assert_eq!(one.contested + another.contested, 0);
    // From one group to another and back, while jobs start in both.
    for key in ["even", "odd", "even"] {
        let report =
            Backfill::groups_of(client, "deed", UniqueKey::raw(key)).limit(3).overwrite().batch(20).await.unwrap();
        assert_eq!(report.unfit + report.other_group, 0);
    }
    database.until("SELECT count(*) FROM {schema}.job WHERE finalized_at IS NULL", 0).await;
    drop(runners);
    let once = "SELECT count(*) FROM {schema}.job WHERE state = 'completed' AND attempt = 1 AND run = 1";
    assert_eq!(database.number(once).await, jobs as i64, "each job ran once");
    let started = "SELECT count(DISTINCT job) FROM {schema}.start_log WHERE is_start AND group_key IS NOT NULL";
    assert!(database.number(started).await > 0, "none started in a group");
    assert_limits_were_kept(&database).await;
}
