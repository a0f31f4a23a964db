//! What a key, an answer to a duplicate or a group can never do is refused alike in Rust and in SQL, and nothing is inserted.

use std::time::Duration;

use serde_json::json;
use uniqueue::{NewJob, OnConflict, UniqueKey, UniquePolicy, UniqueScope, Update};

use support::Database;

const MINUTE: Duration = Duration::from_secs(60);

#[support::test]
async fn what_can_never_work_is_an_error_that_names_the_member_in_rust_and_in_sql(database: Database) {
    let job = || NewJob::new("a", &json!({"list": [1], "n": 1}));
    let queued = |update| UniqueKey::raw("k").scope(UniqueScope::Queued).update(update);
    let holder = database.client.insert(job().unique_key(queued(Update::append()))).await.unwrap();
    let append = r#"{"key": "k", "scope": "queued", "update": "append"}"#;
    for (refused, args, more, problem) in [
        (
            job().unique_key(queued(Update::latest().push(MINUTE))).scheduled_in(MINUTE),
            "{}",
            r#"scheduled_at => now() + interval '61 s',
            unique_policy => '{"key": "k", "scope": "queued", "max_delay": "PT1M"}'"#,
            "max_delay: must be longer than the delay",
        ),
        (
            NewJob::new("a", &json!({"n": 2})).unique_key(queued(Update::append())),
            r#"{"n": 2}"#,
            &format!("unique_policy => '{append}'"),
            "append needs an array in both jobs: \"n\"",
        ),
        (
            job().unique(
                UniquePolicy::new().by_arg_fields(["list"]).scope(UniqueScope::Queued).update(Update::append()),
            ),
            r#"{"list": [1]}"#,
            r#"unique_policy => '{"keys": ["args"], "args_keys": ["list"], "scope": "queued", "update": "append"}'"#,
            "update: append would change a member that the key is made from: \"list\"",
        ),
        (
            job().unique_key(UniqueKey::raw("k").scope(UniqueScope::Active).on_conflict(OnConflict::RunAgain)),
            "{}",
            r#"unique_policy => '{"key": "k", "scope": "active", "on_conflict": "run_again"}'"#,
            "on_conflict: run_again needs a scope without running",
        ),
    ] {
        let said = database.client.insert(refused.clone()).await.unwrap_err().to_string();
        assert!(said.contains(problem), "{said}");
        // All or nothing: the other job of the batch is not inserted either.
        let said = database.client.insert_many([job(), refused]).await.unwrap_err().to_string();
        assert!(said.contains(problem), "{said}");
        let sql = format!("SELECT count(*) FROM {{schema}}.insert_job('a', '{args}', {more})");
        let said = sqlx::query(database.sql(&sql)).execute(database.pool()).await.unwrap_err();
        assert!(said.to_string().contains(problem), "{said}");
        assert_eq!(said.as_database_error().unwrap().code().as_deref(), Some("22023"), "{said}");
    }
    let stored = "SELECT string_agg(id || args::text, ' ') FROM {schema}.job";
    assert_eq!(database.text(stored).await, format!(r#"{}{{"n": 1, "list": [1]}}"#, holder.id()));
}
