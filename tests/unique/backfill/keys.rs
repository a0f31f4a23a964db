//! Which jobs get a key, and which of them the claim.

use uniqueue_admin::{Backfill, BackfillReport, OnCollision};

use super::{by_n, counts, no_claim_is_missing, numbered, plain};
use support::prelude::*;

#[support::test]
async fn after_a_backfill_the_insert_of_the_same_job_is_a_duplicate_through_both_doors(database: Database) {
    let client = &database.client;
    let far = OffsetDateTime::now_utc() + Duration::from_secs(400 * 86_400);
    let policies = [
        json!({"keys": ["args"]}),
        json!({"keys": ["args", "queue", "meta"], "args_keys": ["user/id"], "meta_keys": ["tenant"]}),
        json!({"keys": ["args"], "args_keys": ["/deep/er"], "scope": "exists", "ttl": "P1D"}),
        json!({"keys": ["args"], "window": "PT1H"}),
        json!({"keys": ["args"], "optional_args_keys": ["missing", "ünï"], "period": "P7D"}),
        json!({"keys": ["args"], "until": "success", "exclude_type": true}),
    ];
    for (place, document) in policies.iter().enumerate() {
        for state in ["available", "scheduled", "pending", "running", "retryable", "completed"] {
            let kind = format!("kind {place} {state}");
            // The kind is not in every key.
            let args = json!({"state": state, "user/id": 9_007_199_254_740_993_u64, "deep": {"er": [1, 1.0, "e\u{301}"]}, "ünï": null});
            let one = || NewJob::new(&kind, &args).queue("q").meta("tenant", "acme").scheduled_at(far);
            let before = client.insert(one()).await.unwrap().id();
            database.set_state(before, state).await;
            let policy = UniquePolicy::from_ojs(document).unwrap();
            let claims_completed = document["scope"] == "exists";
            let report = Backfill::keys_of(client, &kind, policy.clone()).await.unwrap();
            if state == "completed" && !claims_completed {
                assert_eq!(report.jobs, 0, "{document} {state}");
                continue;
            }
            assert_eq!((report.jobs, report.claimed), (1, 1), "{document} {state}: {report:?}");
            let policy = policy.on_conflict(uniqueue::OnConflict::Ignore);
            let again = client.insert(one().unique(policy)).await.unwrap();
            assert_eq!((again.duplicate, again.id()), (true, before), "{document} {state}");
            let (id, duplicate): (uuid::Uuid, bool) = sqlx::query_as(database.sql(
                "SELECT id, duplicate FROM {schema}.insert_job(
                    $1, $2, queue => 'q', meta => '{\"tenant\": \"acme\"}', scheduled_at => $3,
                    unique_policy => $4::jsonb || '{\"on_conflict\": \"ignore\"}'
                )",
            ))
            .bind(&kind)
            .bind(&args)
            .bind(far)
            .bind(document)
            .fetch_one(database.pool())
            .await
            .unwrap();
            assert_eq!((duplicate, JobId::from(id)), (true, before), "{document} {state}");
        }
    }
}

#[support::test]
async fn a_dry_run_changes_nothing_and_tells_what_the_run_does(database: Database, client: &Client) {
    let ids = plain(&database, 250, 2).await;
    client.insert(numbered(3).unique(by_n())).await.unwrap();
    client.insert(numbered(4).unique_key(UniqueKey::raw("own"))).await.unwrap();
    client.insert(NewJob::new("a", &json!({}))).await.unwrap();
    client.insert(job("b")).await.unwrap();
    database.set_state(ids[0], "running").await;
    let before = database.text("SELECT md5(string_agg(j::text, '' ORDER BY j.id)) FROM {schema}.job AS j").await;
    for on_collision in [OnCollision::GoOn, OnCollision::Cancel] {
        let dry = Backfill::keys_of(client, "a", by_n()).on_collision(on_collision).dry_run().await.unwrap();
        let after = database.text("SELECT md5(string_agg(j::text, '' ORDER BY j.id)) FROM {schema}.job AS j").await;
        assert_eq!(before, after);
        assert!(dry.dry_run && !dry.is_settled());
        let cancelled = if on_collision == OnCollision::Cancel { 251 } else { 0 };
        assert_eq!(counts(&dry), [503, 1, 249, 0, 1, 251, cancelled, 1, 0], "{dry:?}");
        assert_eq!((dry.collisions.len(), dry.unfit_jobs.len()), (100, 1));
        assert!(dry.unfit_jobs[0].problem.contains("args_keys") || dry.unfit_jobs[0].problem.contains("\"n\""));
    }
    let dry = Backfill::keys_of(client, "a", by_n()).dry_run().await.unwrap();
    let run = Backfill::keys_of(client, "a", by_n()).await.unwrap();
    assert_eq!(counts(&dry), counts(&run));
    let pairs = |report: &BackfillReport| -> HashMap<JobId, JobId> {
        report.collisions.iter().map(|collision| (collision.job, collision.holder)).collect()
    };
    assert_eq!(pairs(&dry), pairs(&run));
}

#[support::test]
async fn the_oldest_job_claims_and_the_others_go_on_without(database: Database, client: &Client) {
    let ids = plain(&database, 3, 3).await;
    let report = Backfill::keys_of(client, "a", by_n().on_reentry(OnReentry::Discard)).batch(2).await.unwrap();
    assert_eq!(counts(&report), [9, 0, 3, 0, 0, 6, 0, 0, 0]);
    for (place, id) in ids.iter().enumerate() {
        let found = database.row(*id).await;
        assert_eq!((found.state, found.claims), (JobState::Available, place < 3), "{place}");
        assert!(found.errors.is_empty() && found.unique_key.is_some());
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE discard_on_reentry").await, 9);
    // Run again it finds the claims as they are; when a holder is gone, the next job takes its claim.
    client.cancel(ids[0]).await.unwrap();
    let again = Backfill::keys_of(client, "a", by_n().on_reentry(OnReentry::Discard)).await.unwrap();
    assert_eq!(counts(&again), [8, 2, 1, 0, 0, 5, 0, 0, 0]);
    assert!(database.row(ids[3]).await.claims);
    no_claim_is_missing(&database).await;
}

#[support::test]
async fn cancelling_collisions_spares_what_runs_and_names_the_holder(database: Database, client: &Client) {
    let ids = plain(&database, 1, 4).await;
    database.set_state(ids[1], "running").await;
    database.set_state(ids[2], "retryable").await;
    let report = Backfill::keys_of(client, "a", by_n()).on_collision(OnCollision::Cancel).await.unwrap();
    assert_eq!(counts(&report), [4, 0, 1, 0, 0, 3, 2, 0, 0]);
    assert!(!report.is_settled(), "one runs without the claim");
    let running = database.row(ids[1]).await;
    assert_eq!((running.state, running.claims), (JobState::Running, false));
    for id in [ids[2], ids[3]] {
        let cancelled = database.row(id).await;
        assert_eq!((cancelled.state, cancelled.replaced_by), (JobState::Cancelled, Some(ids[0])));
        assert!(cancelled.errors.last().unwrap().error.contains(&ids[0].to_string()), "{:?}", cancelled.errors);
    }
    assert!(database.row(ids[0]).await.claims);
}

#[support::test]
async fn keys_that_jobs_carry_change_only_when_asked_and_what_was_given_up_stays_so(database: Database) {
    let client = &database.client;
    let own = client.insert(numbered(1).unique_key(UniqueKey::raw("own"))).await.unwrap().id();
    let old = UniquePolicy::new().by_args();
    let older = client.insert(numbered(2).unique(old)).await.unwrap().id();
    let scoped = client.insert(numbered(3).unique(by_n().scope(UniqueScope::Queued))).await.unwrap().id();
    let released = client.insert(numbered(4).unique(by_n())).await.unwrap();
    client.release_claim(released.job.unique_key.as_deref().unwrap()).await.unwrap();
    let report = Backfill::keys_of(client, "a", by_n()).await.unwrap();
    assert_eq!(counts(&report), [4, 1, 0, 0, 3, 0, 0, 0, 0]);
    assert_eq!(database.row(own).await.unique_key.as_deref(), Some("own"));
    let report = Backfill::keys_of(client, "a", by_n()).overwrite().await.unwrap();
    assert_eq!(counts(&report), [4, 1, 3, 0, 0, 0, 0, 0, 0]);
    for (id, n) in [(own, 1), (older, 2), (scoped, 3)] {
        let again = client.insert(numbered(n).unique(by_n())).await.unwrap();
        assert_eq!((again.duplicate, again.id()), (true, id));
        assert_eq!(database.row(id).await.unique_states, Some(UniqueScope::Active.states()));
    }
    assert_eq!(client.holder("own").await.unwrap().map(|job| job.id), None);
    assert!(!database.row(released.id()).await.claims);
    let report = Backfill::keys_of(client, "a", by_n()).overwrite().await.unwrap();
    assert_eq!((report.unchanged, report.is_settled()), (4, true));
}

#[support::test]
async fn a_dead_job_that_gave_its_claim_up_takes_no_key_from_a_live_one(database: Database, client: &Client) {
    let by_args = UniquePolicy::new().by_args().scope(UniqueScope::Completed);
    let dead = client.insert(numbered(1).unique(by_args.clone())).await.unwrap();
    database.set_state(dead.id(), "completed").await;
    client.release_claim(dead.job.unique_key.as_deref().unwrap()).await.unwrap();
    let live = client.insert(numbered(1).unique(by_args)).await.unwrap();
    assert!(!live.duplicate);
    let policy = by_n().scope(UniqueScope::Completed);
    let backfill = || Backfill::keys_of(client, "a", policy.clone()).overwrite().on_collision(OnCollision::Cancel);
    for report in [backfill().dry_run().await.unwrap(), backfill().await.unwrap()] {
        assert_eq!(counts(&report), [2, 0, 1, 1, 0, 0, 0, 0, 0], "{report:?}");
    }
    let found = database.row(live.id()).await;
    assert_eq!((found.state, found.claims), (JobState::Available, true));
    let dead = database.row(dead.id()).await;
    assert_eq!((dead.unique_key, dead.claims), (found.unique_key, false));
    assert_eq!(counts(&backfill().await.unwrap()), [2, 2, 0, 0, 0, 0, 0, 0, 0]);
}

#[support::test]
async fn a_claim_that_is_over_is_not_made(database: Database, client: &Client) {
    let ids = plain(&database, 2, 1).await;
    database.pass(Duration::from_secs(7_200)).await;
    let report = Backfill::keys_of(client, "a", by_n().period(HOUR)).await.unwrap();
    assert_eq!(counts(&report), [2, 0, 0, 2, 0, 0, 0, 0, 0]);
    let expired = database.row(ids[0]).await;
    assert_eq!(expired.unique_until, Some(expired.created_at + HOUR));
    assert!(!client.insert(numbered(0).unique(by_n().period(HOUR))).await.unwrap().duplicate);
    // Until the start: a job that was started gave its claim up then.
    let started = client.insert(NewJob::new("s", &json!({"n": 1}))).await.unwrap().id();
    let waits = client.insert(NewJob::new("s", &json!({"n": 2}))).await.unwrap().id();
    database
        .execute(&format!("UPDATE {{schema}}.job SET attempted_at = now(), attempt = 1 WHERE id = '{started}'"))
        .await;
    let report = Backfill::keys_of(client, "s", by_n().until(Until::Start)).await.unwrap();
    assert_eq!(counts(&report), [2, 0, 1, 1, 0, 0, 0, 0, 0]);
    assert!(database.row(waits).await.claims && !database.row(started).await.claims);
    // In a state that claims nothing the key waits for the state.
    let runs = client.insert(NewJob::new("r", &json!({"n": 1}))).await.unwrap().id();
    database.set_state(runs, "running").await;
    let queued = by_n().scope(UniqueScope::Queued);
    let report = Backfill::keys_of(client, "r", queued.clone()).await.unwrap();
    assert_eq!(counts(&report), [1, 0, 0, 1, 0, 0, 0, 0, 0]);
    assert_eq!(Backfill::keys_of(client, "r", queued).await.unwrap().unchanged, 1);
}

#[support::test]
async fn whichever_time_a_window_was_taken_from_the_key_stays_and_a_completed_job_has_its_own(database: Database) {
    let client = &database.client;
    let windowed = || by_n().scope(UniqueScope::Completed).window(HOUR);
    let later = OffsetDateTime::now_utc() + 5 * HOUR;
    let set = async |id: JobId, change: &str| {
        database.execute(&format!("UPDATE {{schema}}.job SET {change} WHERE id = '{id}'")).await;
    };
    // Its first attempt was snoozed into another window, and came again.
    let snoozed = client.insert(numbered(1).unique(windowed())).await.unwrap();
    database.set_state(snoozed.id(), "running").await;
    set(snoozed.id(), "attempt = 1, attempted_at = now(), scheduled_at = now() + interval '5 hours'").await;
    // Moved to now by an operator, and retried.
    let moved = client.insert(numbered(2).scheduled_at(later).unique(windowed())).await.unwrap();
    database.set_state(moved.id(), "retryable").await;
    set(moved.id(), "attempt = 1, attempted_at = now()").await;
    // Its ttl counts from its insert, and it is put off before it was attempted.
    let lasting = by_n().ttl(HOUR);
    let put_off = client.insert(NewJob::new("b", &json!({"n": 3})).unique(lasting.clone())).await.unwrap();
    set(put_off.id(), "state = 'scheduled', scheduled_at = now() + interval '5 hours'").await;
    for report in [
        Backfill::keys_of(client, "a", windowed()).await.unwrap(),
        Backfill::keys_of(client, "a", windowed()).overwrite().await.unwrap(),
    ] {
        assert_eq!(counts(&report), [2, 2, 0, 0, 0, 0, 0, 0, 0], "{report:?}");
    }
    assert_eq!(database.row(snoozed.id()).await.unique_key, snoozed.job.unique_key);
    assert_eq!(Backfill::keys_of(client, "b", lasting).await.unwrap().unchanged, 1);
    // Another length of time is still another.
    assert_eq!(Backfill::keys_of(client, "b", by_n().ttl(2 * HOUR)).await.unwrap().other_key, 1);
    // Without a key: a job that was completed at once was due when it was scheduled.
    let completed = client.insert(numbered(4).scheduled_at(later)).await.unwrap().id();
    database.set_state(completed, "completed").await;
    set(completed, "attempt = 1, attempted_at = now()").await;
    assert_eq!(Backfill::keys_of(client, "a", windowed()).await.unwrap().claimed, 1);
    let again = client.insert(numbered(4).scheduled_at(later).unique(windowed())).await.unwrap();
    assert_eq!((again.duplicate, again.id()), (true, completed));
}

#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "derived", unique)]
struct Derived {
    user: u64,
}

#[derive(Debug, Deserialize, Serialize)]
struct ByHand {
    user: u64,
}

impl Job for ByHand {
    const KIND: &'static str = "by hand";

    fn unique_key(&self) -> Option<UniqueKey> {
        (self.user > 0).then(|| UniqueKey::raw(format!("user {}", self.user)).scope(UniqueScope::Active))
    }
}

#[support::test]
async fn a_typed_kind_makes_its_own_keys(database: Database, client: &Client) {
    let derived = client.insert(NewJob::new("derived", &json!({"user": 7}))).await.unwrap().id();
    client.insert(NewJob::new("derived", &json!({"user": "a word"}))).await.unwrap();
    let by_hand = client.insert(NewJob::new("by hand", &json!({"user": 7}))).await.unwrap().id();
    client.insert(NewJob::new("by hand", &json!({"user": 0}))).await.unwrap();
    let report = Backfill::keys::<Derived>(client).await.unwrap();
    assert_eq!((report.jobs, report.claimed, report.unfit), (2, 1, 1), "{report:?}");
    assert_eq!(client.insert(Derived { user: 7 }).await.unwrap().id(), derived);
    let report = Backfill::keys::<ByHand>(client).await.unwrap();
    assert_eq!((report.jobs, report.claimed, report.unfit), (2, 1, 1), "{report:?}");
    assert_eq!(client.insert(ByHand { user: 7 }).await.unwrap().id(), by_hand);
}

#[support::test]
async fn final_jobs_of_an_older_shape_count_only_where_the_policy_claims_in_their_state(database: Database) {
    #[derive(Debug, Deserialize, Job, Serialize)]
    #[job(kind = "completed", unique(args, scope = "completed"))]
    struct Completed {
        user: u64,
    }

    let client = &database.client;
    for kind in ["derived", "completed", "by hand"] {
        for (state, args) in [("discarded", json!({"user_id": 7})), ("completed", json!({"user_id": 7}))] {
            let id = client.insert(NewJob::new(kind, &args)).await.unwrap().id();
            database.set_state(id, state).await;
        }
        client.insert(NewJob::new(kind, &json!({"user": 7}))).await.unwrap();
    }
    let report = Backfill::keys::<Derived>(client).await.unwrap();
    assert_eq!((counts(&report), report.is_settled()), ([1, 0, 1, 0, 0, 0, 0, 0, 0], true));
    let report = Backfill::keys::<Completed>(client).await.unwrap();
    assert_eq!((counts(&report), report.is_settled()), ([2, 0, 1, 0, 0, 0, 0, 1, 0], false));
    let report = Backfill::keys::<ByHand>(client).await.unwrap();
    assert_eq!((counts(&report), report.is_settled()), ([1, 0, 1, 0, 0, 0, 0, 0, 0], true));
}
