//! `explain_unique`: what an insert would do, without doing it.

use sqlx::types::Json;

use super::insert;
use support::prelude::*;

#[derive(Debug, Deserialize)]
struct Explanation {
    canonical: Option<String>,
    unique_key: Option<String>,
    would_claim_in: Option<Vec<String>>,
    outcome: String,
    replaced: Option<Uuid>,
    holder: Option<Uuid>,
    holder_state: Option<String>,
    claims_in: Option<Vec<String>>,
    frees: Option<String>,
    new_args: Option<Value>,
    #[serde(with = "time::serde::rfc3339::option")]
    new_scheduled_at: Option<OffsetDateTime>,
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
    let text = format!("SELECT to_jsonb(e) FROM {{schema}}.explain_unique({arguments}) AS e");
    let Json(explanation) = sqlx::query_scalar(database.sql(&text)).fetch_one(connection).await.unwrap();
    explanation
}

#[support::test]
async fn a_raw_key_claims_while_queued_and_a_policy_s_key_while_active_and_both_say_so(database: Database) {
    let key = database.client.explain(NewJob::new("a", &json!({})).unique_key(UniqueKey::raw("k"))).await.unwrap();
    assert_eq!(key.would_claim_in, UniqueScope::Queued.states());
    let policy = NewJob::new("a", &json!({})).unique(UniquePolicy::new().key("k"));
    assert_eq!(database.client.explain(policy).await.unwrap().would_claim_in, UniqueScope::Active.states());
    let found = explain(&database, r#"'a', unique_policy => '{"key": "k"}'"#).await;
    assert_eq!(found.would_claim_in.unwrap(), ["pending", "scheduled", "available", "running", "retryable"]);
    assert_eq!(explain(&database, "'a'").await.would_claim_in, None);
}

#[support::test]
async fn a_free_key_would_be_inserted(database: Database) {
    let found = explain(&database, "'a', unique_policy => '{}'").await;
    assert_eq!(found.canonical.as_deref(), Some(r#"{"type":"a"}"#));
    assert_eq!(found.unique_key.unwrap().len(), 64);
    assert_eq!(found.outcome, "inserted");
    assert_eq!((found.holder, found.holder_state, found.claims_in, found.frees), (None, None, None, None));
    assert_eq!(database.number("SELECT count(*) FROM {schema}.job").await, 0);
}

#[support::test]
async fn the_holder_is_shown_with_what_frees_it(database: Database) {
    let holder = insert(&database, "'a', unique_policy => '{}'").await.unwrap();
    let found = explain(&database, "'a', unique_policy => '{\"scope\": \"exists\"}'").await;
    assert_eq!(found.outcome, "duplicate");
    assert_eq!(found.holder, Some(holder.id));
    assert_eq!(found.holder_state.as_deref(), Some("available"));
    assert_eq!(found.claims_in.unwrap(), ["pending", "scheduled", "available", "running", "retryable"]);
    assert_eq!(found.frees.as_deref(), Some("when it is completed, cancelled or discarded"));
    let age = "SELECT (holder_age BETWEEN interval '0' AND interval '1 minute')::int::bigint
        FROM {schema}.explain_unique('a', unique_policy => '{}')";
    assert_eq!(database.number(age).await, 1);
}

#[support::test]
async fn the_outcome_is_what_the_insert_then_does(database: Database) {
    let answers = [
        r#""on_conflict": "ignore""#,
        r#""on_conflict": "reject""#,
        r#""on_conflict": "replace""#,
        r#""on_conflict": "replace_except_schedule""#,
        r#""on_conflict": "preempt""#,
        r#""update": "latest""#,
        r#""update": "merge""#,
        r#""update": "append""#,
        r#""update": "append", "max_items": 2"#,
        r#""update": "append", "max_delay": "P36525D""#,
        r#""on_conflict": "run_again""#,
    ];
    for state in ["available", "scheduled", "retryable", "pending", "running", "completed", "cancelled", "discarded"] {
        for scope in ["queued", "active", "completed", "exists"] {
            for answer in answers {
                database.execute("DELETE FROM {schema}.job").await;
                let holder = format!(
                    "'a', '{{\"i\": [1], \"kept\": true}}', scheduled_at => '2040-01-01 00:00Z',
                    unique_policy => '{{\"scope\": \"{scope}\"}}'"
                );
                let holder = insert(&database, &holder).await.unwrap().id;
                database.set_state(JobId::from(holder), state).await;
                // A scope with running is an error for run_again.
                let own = if answer.contains("run_again") { "queued" } else { "active" };
                let policy = format!("{{{answer}, \"scope\": \"{own}\"}}");
                let arguments = format!(
                    "'a', '{{\"i\": [2, 3]}}', scheduled_at => '2050-01-01 00:00Z', unique_policy => '{policy}'"
                );
                let case = format!("{state} {scope} {answer}");
                let found = explain(&database, &arguments).await;
                let told = insert(&database, &format!("{arguments}, on_reject => 'row'")).await.unwrap();
                assert_eq!((&found.outcome, found.replaced), (&told.outcome, told.replaced), "{case}: {found:?}");
                let is_updated = told.outcome == "updated";
                assert_eq!(
                    (found.new_args.is_some(), found.new_scheduled_at.is_some()),
                    (is_updated, is_updated),
                    "{case}"
                );
                if let (Some(args), Some(due)) = (found.new_args, found.new_scheduled_at) {
                    let job = database.client.job(JobId::from(holder)).await.unwrap().unwrap();
                    assert_eq!(args, serde_json::from_str::<Value>(job.args.get()).unwrap(), "{case}");
                    assert_eq!(due, job.scheduled_at, "{case}");
                    assert_eq!(
                        due.year() == 2050,
                        answer.contains("max_delay") && state == "scheduled",
                        "{case}: {due}"
                    );
                }
            }
        }
    }
    // The same insert again answers the same, and changes nothing.
    for (id, arguments, outcome) in [
        (Uuid::now_v7(), "'b'", "inserted"),
        (Uuid::now_v7(), r#"'c', '{"i": [1]}', unique_policy => '{"update": "append"}'"#, "updated"),
    ] {
        if outcome == "updated" {
            insert(&database, arguments).await.unwrap();
        }
        let arguments = format!("{arguments}, id => '{id}'");
        let first = explain(&database, &arguments).await;
        insert(&database, &arguments).await.unwrap();
        let again = explain(&database, &arguments).await;
        assert_eq!((first.outcome.as_str(), again.outcome.as_str()), (outcome, outcome));
        assert_eq!(first.new_args, again.new_args, "{arguments}");
    }
}

#[support::test]
async fn an_expired_claim_holds_nothing(database: Database) {
    insert(&database, "'a', unique_policy => '{\"period\": \"PT1H\"}'").await.unwrap();
    assert_eq!(explain(&database, "'a', unique_policy => '{}'").await.outcome, "duplicate");
    database.pass(std::time::Duration::from_secs(3601)).await;
    let found = explain(&database, "'a', unique_policy => '{}'").await;
    assert_eq!(found.outcome, "inserted");
    assert_eq!(found.holder, None);
}

#[support::test]
async fn a_row_lock_of_another_does_not_hold_it_up(database: Database) {
    let holder = insert(&database, "'a', unique_policy => '{}'").await.unwrap();
    let mut other = database.pool().begin().await.unwrap();
    sqlx::query(database.sql("SELECT 1 FROM {schema}.job FOR UPDATE")).execute(&mut *other).await.unwrap();
    assert_eq!(explain(&database, "'a', unique_policy => '{}'").await.holder, Some(holder.id));
}

#[support::test]
async fn rust_reads_all_that_sql_explains(database: Database) {
    let args = json!({"user_id": 42, "ratio": 1.0, "name": "e\u{301}"});
    for policy in [
        json!({"keys": ["args", "queue"], "args_keys": ["user_id"], "scope": "exists", "ttl": "PT1H"}),
        json!({"key": "u", "scope": "queued", "update": "merge"}),
        json!({"key": "r", "scope": "queued", "until": "start", "on_conflict": "replace"}),
        json!({"key": "e", "scope": "exists"}),
        json!({"key": "f", "scope": "exists", "until": "start"}),
        json!({"key": "s", "states": ["scheduled", "available"], "until": "start", "period": "PT1H"}),
    ] {
        let job = || {
            let policy = UniquePolicy::from_json_with_default(&policy, OnConflict::Ignore).unwrap();
            NewJob::new("k", &args).queue("q").unique(policy)
        };
        for _ in 0..2 {
            let found = database.client.explain(job()).await.unwrap();
            let text = format!("'k', '{args}', queue => 'q', unique_policy => '{policy}'");
            let wanted = explain(&database, &text).await;
            let words = |states: Option<Vec<String>>| states.map(|states| states.join(", "));
            let holder = found.holder.as_ref();
            let of_rust = (
                (found.canonical.clone(), found.unique_key.clone(), Some(found.would_claim_in.to_string())),
                (found.outcome.as_str(), found.replaced.map(JobId::as_uuid), found.new_scheduled_at),
                found.new_args.as_ref().map(|args| serde_json::from_str::<Value>(args.get()).unwrap()),
                holder.map(|holder| {
                    (holder.holder.as_uuid(), holder.holder_state.as_str(), holder.claims_in.to_string())
                }),
                holder.map(uniqueue::Duplicate::frees),
            );
            let of_sql = (
                (wanted.canonical, wanted.unique_key, words(wanted.would_claim_in)),
                (&*wanted.outcome, wanted.replaced, wanted.new_scheduled_at),
                wanted.new_args,
                (wanted.holder.zip(wanted.holder_state.as_deref()).zip(words(wanted.claims_in)))
                    .map(|((id, state), claims_in)| (id, state, claims_in)),
                wanted.frees,
            );
            assert_eq!(of_rust, of_sql, "{policy}");
            assert!(holder.is_none_or(|holder| holder.holder_age < std::time::Duration::from_secs(60)));
            database.client.insert(job()).await.unwrap();
        }
    }
    let plain = database.client.explain(NewJob::new("k", &args)).await.unwrap();
    assert_eq!((plain.canonical, plain.unique_key, plain.outcome), (None, None, InsertOutcome::Inserted));
}

#[support::test]
async fn rust_explains_in_a_transaction_that_cannot_write(database: Database) {
    let job = || NewJob::new("k", &json!({})).unique(UniquePolicy::new());
    let mut transaction = database.pool().begin().await.unwrap();
    let inserted = database.client.insert(job()).tx(&mut transaction).await.unwrap();
    let found = database.client.explain(job()).tx(&mut transaction).await.unwrap();
    assert_eq!(found.holder.unwrap().holder, inserted.id());
    transaction.rollback().await.unwrap();

    let mut transaction = database.pool().begin().await.unwrap();
    sqlx::query("SET TRANSACTION READ ONLY").execute(&mut *transaction).await.unwrap();
    let found = database.client.explain(job().id(inserted.id())).tx(&mut transaction).await.unwrap();
    assert!(found.outcome == InsertOutcome::Inserted && found.holder.is_none());
    assert!(database.client.explain(job().queue("")).tx(&mut transaction).await.is_err());
}

#[support::test(with_connections(1))]
async fn a_holder_is_found_by_index_however_small_the_table_was(database: Database) {
    // One row, which is read faster than any index.
    database.execute("ALTER TABLE {schema}.job SET (autovacuum_enabled = off)").await;
    insert(&database, "'a'").await.unwrap();
    database.execute("ANALYZE {schema}.job").await;
    let mut tx = database.pool().begin().await.unwrap();
    let explain = |n: u32| format!(r#"'a', id => '{}', unique_policy => '{{"key": "{n}"}}'"#, Uuid::now_v7());
    // PostgreSQL plans some times anew before it takes to one plan.
    for n in 0..10 {
        assert_eq!(explain_on(&database, &mut tx, &explain(n)).await.outcome, "inserted");
    }
    let jobs = "INSERT INTO {schema}.job (id, kind, unique_key, unique_states)
        SELECT {schema}.new_job_id(), 'a', n::text, 31 FROM generate_series(1, 3000) AS n";
    sqlx::query(database.sql(jobs)).execute(&mut *tx).await.unwrap();
    let read = "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = '{schema}.job'::regclass";
    let before: i64 = sqlx::query_scalar(database.sql(read)).fetch_one(&mut *tx).await.unwrap();
    assert_eq!(explain_on(&database, &mut tx, &explain(3000)).await.outcome, "duplicate");
    assert_eq!(sqlx::query_scalar::<_, i64>(database.sql(read)).fetch_one(&mut *tx).await.unwrap(), before);
}
