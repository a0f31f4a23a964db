//! `explain_unique`: what an insert would do, without doing it.

use serde_json::json;
use sqlx::{PgConnection, Row};
use uniqueue::{JobId, NewJob, OnConflict, UniquePolicy};
use uuid::Uuid;

use super::insert;
use crate::support::Database;

#[derive(Debug)]
struct Explanation {
    canonical: Option<String>,
    unique_key: Option<String>,
    would_insert: bool,
    holder: Option<Uuid>,
    holder_state: Option<String>,
    claims_in: Option<Vec<String>>,
    frees: Option<String>,
}

/// Explains in a transaction that cannot write.
async fn explain(database: &Database, arguments: &str) -> Explanation {
    let mut transaction = database.pool().begin().await.unwrap();
    sqlx::query("SET TRANSACTION READ ONLY").execute(&mut *transaction).await.unwrap();
    let explanation = explain_on(database, &mut transaction, arguments).await;
    let locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype IN ('tuple', 'transactionid')";
    let locks: i64 = sqlx::query(locks).fetch_one(&mut *transaction).await.unwrap().get(0);
    assert_eq!(locks, 0);
    transaction.commit().await.unwrap();
    explanation
}

async fn explain_on(database: &Database, connection: &mut PgConnection, arguments: &str) -> Explanation {
    let text = format!("SELECT e.* FROM {{schema}}.explain_unique({arguments}) AS e");
    let row = sqlx::query(database.sql(&text)).fetch_one(connection).await.unwrap();
    Explanation {
        canonical: row.get("canonical"),
        unique_key: row.get("unique_key"),
        would_insert: row.get("would_insert"),
        holder: row.get("holder"),
        holder_state: row.get("holder_state"),
        claims_in: row.get("claims_in"),
        frees: row.get("frees"),
    }
}

#[tokio::test]
async fn a_free_key_would_be_inserted() {
    let database = Database::new().await;
    let found = explain(&database, "'a', unique_policy => '{}'").await;
    assert_eq!(found.canonical.as_deref(), Some(r#"{"type":"a"}"#));
    assert_eq!(found.unique_key.unwrap().len(), 64);
    assert!(found.would_insert);
    assert_eq!((found.holder, found.holder_state, found.claims_in, found.frees), (None, None, None, None));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[tokio::test]
async fn a_plain_job_would_be_inserted_without_a_key() {
    let database = Database::new().await;
    let found = explain(&database, "'a'").await;
    assert!(found.would_insert);
    assert_eq!((found.canonical, found.unique_key), (None, None));
}

#[tokio::test]
async fn the_holder_is_shown_with_what_frees_it() {
    let database = Database::new().await;
    let holder = insert(&database, "'a', unique_policy => '{}'").await.unwrap();
    let found = explain(&database, "'a', unique_policy => '{\"scope\": \"exists\"}'").await;
    assert!(!found.would_insert);
    assert_eq!(found.holder, Some(holder.id));
    assert_eq!(found.holder_state.as_deref(), Some("available"));
    assert_eq!(found.claims_in.unwrap(), ["pending", "scheduled", "available", "running", "retryable"]);
    assert_eq!(found.frees.as_deref(), Some("when it is completed, cancelled or discarded"));
    let age = "SELECT (holder_age BETWEEN interval '0' AND interval '1 minute')::int::bigint
        FROM {schema}.explain_unique('a', unique_policy => '{}')";
    assert_eq!(database.number(age).await, 1);
}

#[tokio::test]
async fn what_frees_a_key_is_a_sentence_for_every_policy() {
    let database = Database::new().await;
    for (policy, frees) in [
        (r#"{"key": "1", "scope": "exists"}"#, "when it is deleted"),
        (r#"{"key": "2", "scope": "exists", "until": "start"}"#, "when a worker fetches it or it is deleted"),
        (
            r#"{"key": "3", "states": ["scheduled", "available"], "until": "start"}"#,
            "when a worker fetches it or it is pending, retryable, completed, cancelled or discarded",
        ),
        (
            r#"{"key": "4", "scope": "exists", "ttl": "PT1H"}"#,
            "when it is deleted; at the latest at 2999-02-12T16:15:00Z",
        ),
    ] {
        let arguments = format!("'a', scheduled_at => '2999-02-12 15:15Z', unique_policy => '{policy}'");
        insert(&database, &arguments).await.unwrap();
        let found = explain(&database, &arguments).await;
        assert_eq!(found.frees.as_deref(), Some(frees), "{policy}");
        assert_eq!(found.canonical, None);
    }
}

#[tokio::test]
async fn would_insert_tells_what_the_insert_then_does() {
    let database = Database::new().await;
    for state in ["available", "scheduled", "retryable", "pending", "running", "completed", "cancelled", "discarded"] {
        for scope in ["queued", "active", "completed", "exists"] {
            for on_conflict in
                ["ignore", "reject", "replace", "replace_except_schedule", "preempt", "update", "run_again"]
            {
                database.execute("DELETE FROM {schema}.job").await;
                let holder =
                    insert(&database, &format!("'a', unique_policy => '{{\"scope\": \"{scope}\"}}'")).await.unwrap();
                database.set_state(JobId::from(holder.id), state).await;
                // A scope with running is an error for run_again.
                let own = if on_conflict == "run_again" { "queued" } else { "active" };
                let policy = format!("{{\"on_conflict\": \"{on_conflict}\", \"scope\": \"{own}\"}}");
                let arguments = format!("'a', unique_policy => '{policy}'");
                let found = explain(&database, &arguments).await;
                let is_inserted = insert(&database, &arguments).await.is_ok_and(|answer| !answer.duplicate);
                assert_eq!(found.would_insert, is_inserted, "{state} {scope} {on_conflict}: {found:?}");
            }
        }
    }
    // The same id again is no new job.
    let id = Uuid::now_v7();
    let arguments = format!("'b', id => '{id}'");
    assert!(explain(&database, &arguments).await.would_insert);
    insert(&database, &arguments).await.unwrap();
    assert!(!explain(&database, &arguments).await.would_insert);
}

#[tokio::test]
async fn an_expired_claim_holds_nothing() {
    let database = Database::new().await;
    insert(&database, "'a', unique_policy => '{\"period\": \"PT1H\"}'").await.unwrap();
    assert!(!explain(&database, "'a', unique_policy => '{}'").await.would_insert);
    database.pass(std::time::Duration::from_secs(3601)).await;
    let found = explain(&database, "'a', unique_policy => '{}'").await;
    assert!(found.would_insert);
    assert_eq!(found.holder, None);
}

#[tokio::test]
async fn a_row_lock_of_another_does_not_hold_it_up() {
    let database = Database::new().await;
    let holder = insert(&database, "'a', unique_policy => '{}'").await.unwrap();
    let mut other = database.pool().begin().await.unwrap();
    sqlx::query(database.sql("SELECT 1 FROM {schema}.job FOR UPDATE")).execute(&mut *other).await.unwrap();
    assert_eq!(explain(&database, "'a', unique_policy => '{}'").await.holder, Some(holder.id));
}

#[tokio::test]
async fn rust_explains_as_sql_does() {
    let database = Database::new().await;
    let args = json!({"user_id": 42, "ratio": 1.0, "name": "e\u{301}"});
    for policy in [
        json!({}),
        json!({"keys": ["type", "args"]}),
        json!({"keys": ["args", "queue"], "args_keys": ["user_id"], "scope": "exists", "ttl": "PT1H"}),
        json!({"key": "raw", "until": "start", "on_conflict": "replace"}),
        json!({"window": "P36525D", "on_conflict": "reject", "states": ["available", "running"]}),
    ] {
        let of_rust = || {
            let policy = UniquePolicy::from_json_with_default(&policy, OnConflict::Ignore).unwrap();
            NewJob::new("k", &args).queue("q").unique(policy)
        };
        let of_sql = format!("'k', '{args}', queue => 'q', unique_policy => '{policy}'");
        for state in [None, Some("running"), Some("completed")] {
            let found = database.client.explain(of_rust()).await.unwrap();
            let wanted = explain(&database, &of_sql).await;
            assert_eq!((&found.canonical, &found.unique_key), (&wanted.canonical, &wanted.unique_key), "{policy}");
            assert_eq!(found.would_insert, wanted.would_insert, "{policy} {state:?}");
            assert_eq!(found.holder.as_ref().map(|holder| holder.holder.as_uuid()), wanted.holder);
            assert_eq!(found.holder.as_ref().map(|holder| holder.frees()), wanted.frees);
            let claims_in = found.holder.as_ref().map(|holder| holder.claims_in.to_string());
            assert_eq!(claims_in, wanted.claims_in.map(|states| states.join(", ")));
            if let Some(holder) = &found.holder {
                assert_eq!(Some(holder.holder_state.as_str()), wanted.holder_state.as_deref());
                assert!(holder.holder_age < std::time::Duration::from_secs(60), "{holder}");
            }
            let inserted = database.client.insert(of_rust()).await;
            assert_eq!(found.would_insert, inserted.as_ref().is_ok_and(|inserted| !inserted.duplicate), "{policy}");
            if let (Ok(inserted), Some(state)) = (inserted, state) {
                database.set_state(inserted.id(), state).await;
            }
        }
    }
    let plain = database.client.explain(NewJob::new("k", &args)).await.unwrap();
    assert_eq!((plain.canonical, plain.unique_key, plain.would_insert, plain.holder), (None, None, true, None));
}

#[tokio::test]
async fn rust_explains_in_a_transaction_that_cannot_write() {
    let database = Database::new().await;
    let job = || NewJob::new("k", &json!({})).unique(UniquePolicy::new());
    let mut transaction = database.pool().begin().await.unwrap();
    let inserted = database.client.insert(job()).tx(&mut transaction).await.unwrap();
    let found = database.client.explain(job()).tx(&mut transaction).await.unwrap();
    assert_eq!(found.holder.unwrap().holder, inserted.id());
    transaction.rollback().await.unwrap();

    let mut transaction = database.pool().begin().await.unwrap();
    sqlx::query("SET TRANSACTION READ ONLY").execute(&mut *transaction).await.unwrap();
    let found = database.client.explain(job().id(inserted.id())).tx(&mut transaction).await.unwrap();
    assert!(found.would_insert && found.holder.is_none());
    assert!(database.client.explain(job().queue("")).tx(&mut transaction).await.is_err());
}

#[tokio::test]
async fn a_holder_is_found_by_index_however_small_the_table_was() {
    let database = Database::with_connections(1).await;
    // One row, which is read faster than any index.
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    insert(&database, "'a'").await.unwrap();
    database.execute("ANALYZE {schema}.job").await;
    let mut tx = database.pool().begin().await.unwrap();
    let explain = |n: u32| format!(r#"'a', id => '{}', unique_policy => '{{"key": "{n}"}}'"#, Uuid::now_v7());
    // PostgreSQL plans some times anew before it takes to one plan.
    for n in 0..10 {
        assert!(explain_on(&database, &mut tx, &explain(n)).await.would_insert);
    }
    let jobs = "INSERT INTO {schema}.job (id, kind, unique_key, unique_states)
        SELECT {schema}.new_job_id(), 'a', n::text, 31 FROM generate_series(1, 3000) AS n";
    sqlx::query(database.sql(jobs)).execute(&mut *tx).await.unwrap();
    let read = "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = '{schema}.job'::regclass";
    let before: i64 = sqlx::query_scalar(database.sql(read)).fetch_one(&mut *tx).await.unwrap();
    assert!(!explain_on(&database, &mut tx, &explain(3000)).await.would_insert);
    assert_eq!(sqlx::query_scalar::<_, i64>(database.sql(read)).fetch_one(&mut *tx).await.unwrap(), before);
}
