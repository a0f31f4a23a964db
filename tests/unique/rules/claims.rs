//! R1, R2, R3, R5, R8: the holder of a key, and the cost of a duplicate.

use support::prelude::*;

fn key(text: &str) -> UniqueKey {
    UniqueKey::raw(text).scope(UniqueScope::Active)
}

#[tokio::test]
async fn r1_one_of_many_concurrent_inserts_wins_and_all_others_get_it() {
    let database = Database::with_connections(32).await;
    for round in 0..20 {
        let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(32));
        let inserts = (0..32).map(|_| {
            let client = database.client.clone();
            let barrier = barrier.clone();
            tokio::spawn(async move {
                barrier.wait().await;
                client.insert(job("a").unique_key(key(&format!("k{round}")))).await.unwrap()
            })
        });
        let mut answers = Vec::new();
        for insert in inserts.collect::<Vec<_>>() {
            answers.push(insert.await.unwrap());
        }
        assert_eq!(answers.iter().filter(|answer| !answer.duplicate).count(), 1);
        assert!(answers.iter().all(|answer| answer.id() == answers[0].id()));
    }
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 20);
}

#[support::test]
async fn r1_the_index_itself_refuses_a_second_claim(database: Database) {
    database.client.insert(job("a").unique_key(key("k"))).await.unwrap();
    let second = database
        .sql("INSERT INTO {schema}.job (id, kind, unique_key, unique_states) VALUES (gen_random_uuid(), 'a', 'k', 1)");
    let error = sqlx::query(second).execute(database.pool()).await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().code().unwrap(), "23505");
}

#[support::test]
async fn r2_an_insert_with_a_claimed_key_is_a_duplicate_of_the_holder(database: Database) {
    let first = database.client.insert(job("a").priority(7).unique_key(key("k"))).await.unwrap();
    assert!(!first.duplicate);
    let second = database.client.insert(job("b").unique_key(key("k"))).await.unwrap();
    assert!(second.duplicate);
    assert_eq!(second.id(), first.id());
    assert_eq!((second.job.kind.as_str(), second.job.priority), ("a", 7), "the holder's row, unchanged");
}

#[support::test]
async fn r2_a_duplicate_says_which_key_who_holds_it_and_what_frees_it(database: Database) {
    let minute = Duration::from_secs(60);
    let first = database.client.insert(job("a").unique_key(key("k").period(10 * minute))).await.unwrap();
    assert_eq!(first.duplicate_of(), None);
    database.pass(minute).await;
    database.set_state(first.id(), "running").await;
    let duplicate = database.client.insert(job("a").unique_key(key("k"))).await.unwrap().duplicate_of().unwrap();
    assert_eq!((duplicate.unique_key.as_str(), duplicate.holder), ("k", first.id()));
    assert_eq!(duplicate.holder_state, JobState::Running);
    assert!(duplicate.holder_age >= minute && duplicate.holder_age < 2 * minute, "{:?}", duplicate.holder_age);
    assert!(duplicate.frees().starts_with("when it is "), "{}", duplicate.frees());
    assert!(duplicate.frees().contains("; at the latest at 20"), "{}", duplicate.frees());
}

#[support::test]
async fn r2_the_holders_own_policy_decides(database: Database, client: &Client) {
    let queued = UniqueKey::raw("k").scope(UniqueScope::Queued);
    let holder = client.insert(job("a").unique_key(queued)).await.unwrap();
    // A broader newcomer does not replace the first: whichever was there first is retained.
    assert!(client.insert(job("a").unique_key(key("k"))).await.unwrap().duplicate);
    database.set_state(holder.id(), "running").await;
    let newcomer = client.insert(job("a").unique_key(key("k"))).await.unwrap();
    assert!(!newcomer.duplicate, "the holder claimed while queued only");
    // And the newcomer's broader policy holds from here on.
    database.set_state(newcomer.id(), "running").await;
    assert!(client.insert(job("a").unique_key(UniqueKey::raw("k"))).await.unwrap().duplicate);
}

#[support::test]
async fn r2_a_newcomer_that_would_not_claim_at_once_is_still_a_duplicate(database: Database) {
    let holder = database.client.insert(job("a").unique_key(key("k"))).await.unwrap();
    let only_running = UniqueKey::raw("k").states([JobState::Running]);
    let newcomer = database.client.insert(job("a").unique_key(only_running)).await.unwrap();
    assert!(newcomer.duplicate);
    assert_eq!(newcomer.id(), holder.id());
}

#[tokio::test]
async fn r3_a_duplicate_writes_no_wal_and_no_row_version() {
    let database = Database::with_connections(1).await;
    let client = &database.client;
    for n in 0..100 {
        client.insert(job("a").unique_key(key(&format!("k{n}")))).await.unwrap();
    }
    let mut connection = database.pool().acquire().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    // Warm: the first use of a function writes nothing, but hint bits may.
    client.insert(job("a").unique_key(key("k0"))).tx(&mut tx).await.unwrap();
    for n in 0..100 {
        let answer = client.insert(job("a").unique_key(key(&format!("k{n}")))).tx(&mut tx).await.unwrap();
        assert!(answer.duplicate);
    }
    let batch = (0..100).map(|n| job("a").unique_key(key(&format!("k{n}"))));
    let answers = client.insert_many(batch).tx(&mut tx).await.unwrap();
    assert!(answers.iter().all(|answer| answer.duplicate));
    // A transaction gets a number when it first writes anything, so none means no WAL and no row.
    let wrote: Option<String> =
        sqlx::query_scalar("SELECT pg_current_xact_id_if_assigned()::text").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(wrote, None);
    tx.commit().await.unwrap();
    drop(connection);
    let rows = database.number("SELECT count(*) FROM {schema}.job").await;
    assert_eq!(rows, 100);
}

#[support::test]
async fn r3_an_open_duplicate_does_not_lock_or_delay_the_holder(database: Database, client: &Client) {
    let holder = client.insert(job("a").unique_key(key("k"))).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    assert!(client.insert(job("a").unique_key(key("k"))).tx(&mut tx).await.unwrap().duplicate);
    let rejected = client.insert(job("a").unique_key(key("k").on_conflict(uniqueue::OnConflict::Reject)));
    assert!(rejected.tx(&mut tx).await.unwrap_err().is_duplicate());
    // Another connection starts, finishes and deletes the holder while the transaction is open.
    let mut other = database.pool().acquire().await.unwrap();
    sqlx::query("SET lock_timeout = '1s'").execute(&mut *other).await.unwrap();
    for change in [
        "UPDATE {schema}.job SET state = 'running', worker = gen_random_uuid(), attempt = 1",
        "UPDATE {schema}.job SET state = 'completed', finalized_at = now()",
        "DELETE FROM {schema}.job",
    ] {
        let changed = sqlx::query(database.sql(change)).execute(&mut *other).await.unwrap();
        assert_eq!(changed.rows_affected(), 1, "{change}");
    }
    sqlx::query("RESET lock_timeout").execute(&mut *other).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(client.job(holder.id()).await.unwrap().map(|job| job.id), None);
}

#[support::test]
async fn r3_a_duplicate_leaves_the_callers_transaction_usable(database: Database, client: &Client) {
    client.insert(job("a").unique_key(key("k"))).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    assert!(client.insert(job("a").unique_key(key("k"))).tx(&mut tx).await.unwrap().duplicate);
    let row = sqlx::query("SELECT 1").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(row.get::<i32, _>(0), 1);
    client.insert(job("a").unique_key(key("other"))).tx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 2);
}

#[support::test]
async fn r5_a_claim_covers_exactly_the_states_of_its_mask(database: Database, client: &Client) {
    for (number, scope) in
        [UniqueScope::Queued, UniqueScope::Active, UniqueScope::Completed, UniqueScope::Exists].into_iter().enumerate()
    {
        for state in JobState::ALL {
            let text = format!("{number} {state}");
            let holder = client.insert(job("a").unique_key(UniqueKey::raw(&text).scope(scope))).await.unwrap();
            database.set_state(holder.id(), state.as_str()).await;
            let again = client.insert(job("a").unique_key(key(&text))).await.unwrap();
            assert_eq!(again.duplicate, scope.states().contains(state), "{scope:?} {state}");
        }
    }
}

#[support::test]
async fn r5_any_set_of_states_can_claim(database: Database, client: &Client) {
    for bits in 1..=255_i16 {
        let states = StateSet::from_bits(bits).unwrap();
        let text = format!("mask {bits}");
        let holder = client.insert(job("a").unique_key(UniqueKey::raw(&text).states(states))).await.unwrap();
        let is_claimed = client.holder(&text).await.unwrap().is_some_and(|job| job.id == holder.id());
        assert_eq!(is_claimed, states.contains(JobState::Available), "{states}");
    }
}

#[support::test]
async fn r5_deleting_the_holder_frees_the_key(database: Database, client: &Client) {
    let exists = UniqueKey::raw("k").scope(UniqueScope::Exists);
    let holder = client.insert(job("a").unique_key(exists.clone())).await.unwrap();
    database.set_state(holder.id(), "discarded").await;
    assert!(client.insert(job("a").unique_key(exists.clone())).await.unwrap().duplicate);
    database.execute("DELETE FROM {schema}.job").await;
    assert!(!client.insert(job("a").unique_key(exists)).await.unwrap().duplicate);
}

#[tokio::test]
async fn r8_each_scope_is_a_superset_of_the_one_before() {
    let scopes = [UniqueScope::Queued, UniqueScope::Active, UniqueScope::Completed, UniqueScope::Exists];
    for pair in scopes.windows(2) {
        assert!(pair[0].states().iter().all(|state| pair[1].states().contains(state)));
        assert_ne!(pair[0].states(), pair[1].states());
    }
    let empty: [JobState; 0] = [];
    let database = Database::new().await;
    let error = database.client.insert(job("a").unique_key(UniqueKey::raw("k").states(empty))).await.unwrap_err();
    assert!(error.to_string().contains("states"), "{error}");
}

#[support::test]
async fn jobs_without_a_key_are_never_duplicates(database: Database, client: &Client) {
    for _ in 0..3 {
        assert!(!client.insert(job("a")).await.unwrap().duplicate);
        assert!(!client.insert(job("a").unique_key(key("k")).not_unique()).await.unwrap().duplicate);
    }
    assert_eq!(client.holder("k").await.unwrap().map(|job| job.id), None);
}

#[support::test]
async fn a_scheduled_job_waits_and_a_pending_one_is_held_back(database: Database, client: &Client) {
    let scheduled = client.insert(job("a").scheduled_in(Duration::from_secs(60))).await.unwrap();
    assert_eq!(scheduled.job.state, JobState::Scheduled);
    assert_eq!(scheduled.job.scheduled_at - scheduled.job.created_at, Duration::from_secs(60));
    let pending = client.insert(job("a").pending().unique_key(key("k"))).await.unwrap();
    assert_eq!(pending.job.state, JobState::Pending);
    let past = time::OffsetDateTime::UNIX_EPOCH;
    assert_eq!(client.insert(job("a").scheduled_at(past)).await.unwrap().job.state, JobState::Available);
}
