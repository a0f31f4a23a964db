//! Look-ups: in the caller's transaction, and with a time limit.

use support::prelude::*;

/// Makes each look-up with these settings, and collects its name and its error.
macro_rules! look_ups {
    ($client:ident, |$look_up:ident| $set:expr) => {{
        let mut answers: Vec<(&str, Option<Error>)> = Vec::new();
        macro_rules! ask {
            ($name:literal, $made:expr) => {{
                let $look_up = $made;
                answers.push(($name, $set.await.err()));
            }};
        }
        ask!("job", $client.job(uuid::Uuid::nil()));
        ask!("holder", $client.holder("k"));
        ask!("jobs", $client.jobs(JobFilter::all()));
        ask!("count_jobs", $client.count_jobs(JobFilter::all(), 10));
        ask!("queues", Admin::new($client).queues());
        ask!("groups", Admin::new($client).groups());
        ask!("groups by name", Admin::new($client).groups().by_name());
        ask!("stats", Admin::new($client).stats());
        ask!("claims", Admin::new($client).claims());
        ask!("key_history", Admin::new($client).key_history("k", 100));
        ask!("explain", $client.explain(job("a").unique_key(UniqueKey::raw("k"))));
        ask!("running_jobs", Admin::new($client).running_jobs());
        ask!("failing_kinds", Admin::new($client).failing_kinds());
        ask!("suppressed_duplicates", Admin::new($client).suppressed_duplicates());
        ask!("audited_kinds", Admin::new($client).audited_kinds());
        ask!("periodic", Admin::new($client).periodic().list());
        ask!("one periodic job", Admin::new($client).periodic().find("nightly"));
        ask!("runners", Admin::new($client).runners());
        ask!("retentions", Admin::new($client).retentions());
        ask!("stuck_jobs", Admin::new($client).stuck_jobs());
        ask!("why", Admin::new($client).why(JobId::generate()));
        ask!("first_obstacles", Admin::new($client).first_obstacles([JobId::generate()]));
        ask!("why of a queue", Admin::new($client).why_queue("default"));
        ask!("change_log", Admin::new($client).change_log());
        ask!("held_groups", Admin::new($client).held_groups());
        answers
    }};
}

const TABLES: &str = "{schema}.job, {schema}.queue, {schema}.runner, {schema}.periodic, {schema}.duplicate_audit,
    {schema}.duplicate_tally, {schema}.change_log, {schema}.queue_group";

#[support::test]
async fn every_look_up_ends_at_its_time_limit_and_leaves_no_limit_behind(database: Database, client: &Client) {
    let mut locks = database.pool().begin().await.unwrap();
    sqlx::query(database.sql(&format!("LOCK TABLE {TABLES}"))).execute(&mut *locks).await.unwrap();
    let limit = Duration::from_millis(20);
    for (name, error) in look_ups!(client, |look_up| look_up.timeout(limit)) {
        let error = error.unwrap_or_else(|| panic!("{name} has an answer in spite of the lock"));
        assert!(error.is_statement_timeout(), "{name}: {error}");
    }
    let mut connection = database.pool().acquire().await.unwrap();
    sqlx::query("SET statement_timeout = '77s'").execute(&mut *connection).await.unwrap();
    for (name, error) in look_ups!(client, |look_up| look_up.timeout(limit).tx(&mut connection)) {
        assert!(error.is_some_and(|error| error.is_statement_timeout()), "{name}");
        let limit: String = sqlx::query_scalar("SHOW statement_timeout").fetch_one(&mut *connection).await.unwrap();
        assert_eq!(limit, "77s", "{name}");
    }
    locks.rollback().await.unwrap();
    let long = Duration::from_secs(600);
    for (name, error) in look_ups!(client, |look_up| look_up.timeout(long).tx(&mut connection)) {
        assert!(error.is_none(), "{name}: {error:?}");
        let limit: String = sqlx::query_scalar("SHOW statement_timeout").fetch_one(&mut *connection).await.unwrap();
        assert_eq!(limit, "77s", "{name}");
    }
}

#[support::test]
async fn every_look_up_can_be_made_in_the_callers_transaction(database: Database, client: &Client) {
    let mut tx = database.pool().begin().await.unwrap();
    // The transaction's own locks hold up every other connection.
    sqlx::query(database.sql(&format!("LOCK TABLE {TABLES}"))).execute(&mut *tx).await.unwrap();
    for (name, error) in look_ups!(client, |look_up| look_up.tx(&mut tx)) {
        assert!(error.is_none(), "{name}: {error:?}");
    }
    client.database_time().tx(&mut tx).await.unwrap();
    Admin::new(client).waiting_inserts().tx(&mut tx).await.unwrap();
    let id = client.insert(job("a")).tx(&mut tx).await.unwrap().id();
    assert!(client.job(id).timeout(Duration::from_secs(600)).tx(&mut tx).await.unwrap().is_some());
    tx.rollback().await.unwrap();
    assert!(client.job(id).await.unwrap().is_none());
}
