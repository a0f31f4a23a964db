//! R5 and R6 on the operator's paths.

use uniqueue::JobSelection;

use support::prelude::*;

#[support::test]
async fn a_retry_afresh_gives_all_attempts_again_and_a_refused_job_stays_as_it_is(database: Database, client: &Client) {
    let key = || UniqueKey::raw("k").scope(UniqueScope::Active).on_reentry(OnReentry::Discard);
    let plain = client.insert(job("a").max_attempts(3)).await.unwrap().id();
    let keyed = client.insert(job("a").max_attempts(3).unique_key(UniqueKey::raw("free"))).await.unwrap().id();
    let refused = client.insert(job("a").max_attempts(3).unique_key(key())).await.unwrap().id();
    for id in [plain, keyed, refused] {
        database.set_state(id, "discarded").await;
    }
    database.execute("UPDATE {schema}.job SET attempt = 3").await;
    client.insert(job("a").unique_key(key())).await.unwrap();
    let attempts = async |id| {
        let row = client.job(id).await.unwrap().unwrap();
        (row.state, row.attempt, row.max_attempts)
    };
    let mut retried = client.retry([plain, keyed, refused]).afresh().await.unwrap();
    retried.sort();
    assert_eq!(retried, [plain, keyed]);
    assert_eq!([attempts(plain).await, attempts(keyed).await], [(JobState::Available, 0, 3); 2]);
    assert_eq!(attempts(refused).await, (JobState::Discarded, 3, 3));
    // Without it there is one attempt more.
    database.set_state(plain, "discarded").await;
    database.execute("UPDATE {schema}.job SET attempt = max_attempts").await;
    client.retry([plain]).await.unwrap();
    assert_eq!(attempts(plain).await, (JobState::Available, 3, 4));
}

#[support::test]
async fn r6_an_operators_retry_of_a_finished_job_whose_key_is_taken_goes_on_without_a_claim(database: Database) {
    let client = &database.client;
    let key = || UniqueKey::raw("k").scope(UniqueScope::Active);
    for state in ["completed", "cancelled", "discarded"] {
        let first = client.insert(job("a").unique_key(key())).await.unwrap();
        database.set_state(first.id(), state).await;
        let second = client.insert(job("a").unique_key(key())).await.unwrap();
        assert_eq!(client.retry([first.id()]).await.unwrap(), [first.id()]);
        let row = client.job(first.id()).await.unwrap().unwrap();
        assert_eq!((row.state, row.claims, row.finalized_at), (JobState::Available, false, None));
        assert_eq!(client.holder("k").await.unwrap().unwrap().id, second.id());
        // When the holder is gone, the next one that comes back takes the claim.
        client.cancel([second.id()]).await.unwrap();
        client.cancel([first.id()]).await.unwrap();
        client.retry([first.id()]).await.unwrap();
        assert_eq!(client.holder("k").await.unwrap().unwrap().id, first.id());
        client.cancel([first.id()]).await.unwrap();
    }
}

#[support::test]
async fn r6_an_operators_retry_of_a_waiting_job_under_discard_says_why_it_was_discarded(database: Database) {
    let client = &database.client;
    let key = || UniqueKey::raw("k").states([JobState::Available]).on_reentry(OnReentry::Discard);
    let waits = client.insert(job("a").scheduled_in(MINUTE).unique_key(key())).await.unwrap();
    client.insert(job("a").unique_key(key())).await.unwrap();
    client.retry([waits.id()]).await.unwrap();
    let row = client.job(waits.id()).await.unwrap().unwrap();
    assert_eq!(row.state, JobState::Discarded);
    assert!(row.errors[0].error.contains("re-entry"), "{:?}", row.errors);
}

#[support::test]
async fn r6_an_operators_retry_of_a_final_job_under_discard_is_refused_and_names_the_holder(database: Database) {
    let client = &database.client;
    for state in ["completed", "cancelled", "discarded"] {
        let key = || UniqueKey::raw(state).scope(UniqueScope::Active).on_reentry(OnReentry::Discard);
        let old = client.insert(job("a").unique_key(key())).await.unwrap().id();
        database.set_state(old, state).await;
        let twin = client.insert(job("a").unique_key(key())).await.unwrap().id();
        database.set_state(twin, state).await;
        let holder = client.insert(job("a").unique_key(key())).await.unwrap().id();
        let free = client.insert(job("a")).await.unwrap().id();
        database.set_state(free, state).await;
        let row = |id| format!("SELECT j::text FROM {{schema}}.job AS j WHERE id = '{id}'");
        let before = database.text(&row(old)).await;
        // By ids, by a filter, and in SQL.
        for jobs in [JobSelection::from([old, free]), JobFilter::new().ids([old, free]).into()] {
            database.set_state(free, state).await;
            let mut refused = Vec::new();
            let retried = client.retry(jobs).on_refused(|jobs| refused.extend_from_slice(jobs)).await.unwrap();
            assert_eq!(retried, [free]);
            let refused: Vec<_> = refused.iter().map(|job| (job.id, job.holder)).collect();
            assert_eq!(refused, [(old, Some(holder))], "{state}");
        }
        let in_sql = format!(
            "SELECT string_agg(r.id || ' ' || r.state || ' ' || r.refused || ' ' || r.holder, ', ')
             FROM {{schema}}.retry_jobs(ARRAY['{old}']::uuid[]) AS r"
        );
        assert_eq!(database.text(&in_sql).await, format!("{old} {state} true {holder}"));
        assert_eq!(database.text(&row(old)).await, before, "it stays as it was");
        assert_eq!(client.holder(state).await.unwrap().unwrap().id, holder);

        // With the key free it is retried, and its twin meets it.
        client.cancel([holder]).await.unwrap();
        let mut refused = Vec::new();
        let retried = client.retry([old, twin]).on_refused(|jobs| refused.extend_from_slice(jobs)).await.unwrap();
        assert_eq!((retried, refused[0].id, refused[0].holder), (vec![old], twin, Some(old)));
        let job = client.job(old).await.unwrap().unwrap();
        assert_eq!((job.state, job.claims, job.finalized_at), (JobState::Available, true, None));
    }
}

#[support::test]
async fn r6_a_retry_under_discard_is_refused_while_an_open_transaction_takes_the_key(database: Database) {
    let client = &database.client;
    let key = || UniqueKey::raw("k").scope(UniqueScope::Active).on_reentry(OnReentry::Discard);
    let old = client.insert(job("a").unique_key(key())).await.unwrap().id();
    database.set_state(old, "completed").await;
    let mut rival = database.pool().begin().await.unwrap();
    client.insert(job("a").unique_key(key())).tx(&mut rival).await.unwrap();
    let mut refused = Vec::new();
    let retried = client.retry([old]).on_refused(|jobs| refused.extend_from_slice(jobs)).await.unwrap();
    assert_eq!((retried, refused[0].id, refused[0].holder), (vec![], old, None));
    assert_eq!(client.job(old).await.unwrap().unwrap().state, JobState::Completed);
    rival.rollback().await.unwrap();
    assert_eq!(client.retry([old]).await.unwrap(), [old]);
}

#[support::test]
async fn r6_twins_in_one_retry_share_one_claim_and_both_go_on(database: Database, client: &Client) {
    let key = || UniqueKey::raw("k").scope(UniqueScope::Active);
    let mut ids = Vec::new();
    for _ in 0..5 {
        let one = client.insert(job("a").unique_key(key())).await.unwrap();
        client.cancel([one.id()]).await.unwrap();
        ids.push(one.id());
    }
    let mut changed = client.retry(ids.clone()).await.unwrap();
    changed.sort_unstable();
    assert_eq!(changed, ids);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE state = 'available'").await, 5);
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job WHERE claims").await, 1);
}

#[support::test]
async fn r6_a_pending_job_that_is_released_enters_its_mask_where_the_key_is_free(database: Database, client: &Client) {
    let key = |text: &str| UniqueKey::raw(text).states([JobState::Available]);
    let free = client.insert(job("a").pending().unique_key(key("free"))).await.unwrap();
    let taken = client.insert(job("a").pending().unique_key(key("taken"))).await.unwrap();
    let holder = client.insert(job("a").unique_key(key("taken"))).await.unwrap();
    assert!(!holder.duplicate);
    assert_eq!(client.release([free.id(), taken.id(), holder.id()]).await.unwrap().len(), 2);
    assert_eq!(client.holder("free").await.unwrap().unwrap().id, free.id());
    assert_eq!(client.holder("taken").await.unwrap().unwrap().id, holder.id());
    assert_eq!(client.job(taken.id()).await.unwrap().unwrap().state, JobState::Available);
}

#[support::test]
async fn r5_an_operator_releases_a_claim_and_the_holder_goes_on(database: Database, client: &Client) {
    let key = || UniqueKey::raw("k").scope(UniqueScope::Exists);
    let holder = client.insert(job("a").unique_key(key())).await.unwrap();
    assert_eq!(client.release_claim("k").await.unwrap(), Some(holder.id()));
    assert_eq!(client.release_claim("k").await.unwrap(), None);
    assert_eq!(client.job(holder.id()).await.unwrap().unwrap().state, JobState::Available);
    assert!(!client.insert(job("a").unique_key(key())).await.unwrap().duplicate);
    // For good: coming back does not take it again.
    client.cancel([holder.id()]).await.unwrap();
    client.retry([holder.id()]).await.unwrap();
    assert!(!client.job(holder.id()).await.unwrap().unwrap().claims);
}

#[support::test]
async fn calls_in_a_transaction_see_what_it_did_and_are_undone_with_it(database: Database, client: &Client) {
    let holder = client.insert(job("sync").unique_key(UniqueKey::raw("k"))).await.unwrap();
    let mut tx = client.pool().begin().await.unwrap();
    assert_eq!(client.release_claim("k").tx(&mut tx).await.unwrap(), Some(holder.id()));
    assert_eq!(client.holder("k").tx(&mut tx).await.unwrap().map(|job| job.id), None);
    let second = client.insert(job("sync").unique_key(UniqueKey::raw("k"))).tx(&mut tx).await.unwrap();
    assert!(!second.duplicate);
    let claims = Admin::new(client).claims().tx(&mut tx).await.unwrap();
    assert_eq!(claims.iter().map(|held| held.claim.holder).collect::<Vec<_>>(), [second.id()]);
    assert_eq!(client.job(second.id()).tx(&mut tx).await.unwrap().map(|job| job.id), Some(second.id()));
    assert_eq!(client.count_jobs(JobFilter::all(), 9).tx(&mut tx).await.unwrap(), JobCount::Exactly(2));
    assert_eq!(Admin::new(client).key_history("k", 9).tx(&mut tx).await.unwrap().len(), 2);
    let sweep = PeriodicJob::every("sweep", Duration::from_secs(900), job("sweep"));
    client.define_periodic(sweep).tx(&mut tx).await.unwrap();
    assert!(Admin::new(client).periodic().pause("sweep").tx(&mut tx).await.unwrap());
    assert!(Admin::new(client).periodic().run_now("sweep").tx(&mut tx).await.unwrap().is_some());
    assert!(Admin::new(client).periodic().find("sweep").tx(&mut tx).await.unwrap().unwrap().paused_at.is_some());
    // No other session sees any of it,
    assert!(client.job(second.id()).await.unwrap().is_none());
    assert_eq!(client.holder("k").await.unwrap().map(|job| job.id), Some(holder.id()));
    assert!(Admin::new(client).periodic().list().await.unwrap().is_empty());
    tx.rollback().await.unwrap();
    // and none ever will.
    assert_eq!(client.holder("k").await.unwrap().map(|job| job.id), Some(holder.id()));
    assert_eq!(client.count_jobs(JobFilter::all(), 9).await.unwrap(), JobCount::Exactly(1));
    assert!(Admin::new(client).periodic().find("sweep").await.unwrap().is_none());
}

#[support::test(with_connections(1))]
async fn r6_jobs_that_take_their_claims_back_are_written_once(database: Database, client: &Client) {
    const SIZE: usize = 500;
    let keyed = |n: usize| job("a").unique_key(UniqueKey::raw(n.to_string()).scope(UniqueScope::Active));
    let answers = client.insert_many((0..SIZE).map(keyed)).await.unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer.id().as_uuid()).collect();
    client.cancel(JobFilter::all()).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    let written = "SELECT n_tup_upd FROM pg_stat_xact_all_tables WHERE relid = '{schema}.job'::regclass";
    // Of earlier transactions of the session, too.
    let before: i64 = sqlx::query_scalar(database.sql(written)).fetch_one(&mut *tx).await.unwrap();
    let retry = database.sql("SELECT count(*) FROM {schema}.retry_jobs($1) AS r WHERE r.state = 'available'");
    let retried: i64 = sqlx::query_scalar(retry).bind(&ids).fetch_one(&mut *tx).await.unwrap();
    let claims = "SELECT count(*) FROM {schema}.job WHERE claims AND state = 'available'";
    let claims: i64 = sqlx::query_scalar(database.sql(claims)).fetch_one(&mut *tx).await.unwrap();
    let written: i64 = sqlx::query_scalar(database.sql(written)).fetch_one(&mut *tx).await.unwrap();
    assert_eq!([retried, claims, written - before], [SIZE as i64; 3]);
    tx.rollback().await.unwrap();
}
