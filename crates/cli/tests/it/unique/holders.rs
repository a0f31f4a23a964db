//! `unique list`, `show` and `release`.

use test_support::prelude::*;

use super::insert;
use crate::support::Migrated;

/// Inserts a job with the key in an open transaction.
const BLOCKER: &str = "SET application_name = 'the blocker'; BEGIN;
    SELECT jobs.insert_job('a', unique_policy => '{\"key\": \"k\"}')";

#[test_support::test(schema("jobs"))]
async fn holders_are_listed_by_key_kind_queue_and_page(keys: Migrated) {
    for n in 0..5 {
        insert(&keys, "a", "{}", &format!(r#"{{"key": "sync:{n}"}}"#)).await;
    }
    insert(&keys, "b", "{}", r#"{"key": "other"}"#).await;
    insert(&keys, "b", "{}", r#"{"key": "syncx"}"#).await;
    let listed = |options: &[&str]| -> Vec<String> {
        let lines = keys.lines(("unique holders", options));
        lines.iter().map(|line| line["unique_key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&[]).len(), 7);
    assert_eq!(listed(&["--prefix", "sync:"]), ["sync:0", "sync:1", "sync:2", "sync:3", "sync:4"]);
    assert_eq!(listed(&["--prefix", "sync:", "--after", "sync:2", "--limit", "1"]), ["sync:3"]);
    assert_eq!(listed(&["--kind", "b"]), ["other", "syncx"]);
    assert_eq!(listed(&["--queue", "nowhere"]), [""; 0]);
    assert_eq!(listed(&["--prefix", "x' OR true --"]), [""; 0]);
    let text = keys.text("unique holders --limit 2", 0);
    assert!(text.contains("(2 rows)") && text.contains("--after=sync:0\n"), "{text}");
    let line = &keys.lines("unique holders --kind b --limit 1")[0];
    assert_eq!((&line["kind"], &line["holder_state"]), (&json!("b"), &json!("available")));
    assert!(line["frees"].as_str().unwrap().starts_with("when it is "), "{line}");
}

#[test_support::test(schema("jobs"))]
async fn show_tells_who_holds_a_key_who_had_it_and_why(keys: Migrated) {
    let policy = r#"{"keys": ["args"], "on_conflict": "replace", "ttl": "PT1H"}"#;
    let first = insert(&keys, "a", r#"{"n": 1}"#, policy).await;
    let second = insert(&keys, "a", r#"{"n": 1}"#, policy).await;
    keys.execute("SELECT jobs.audit_duplicates('a')").await;
    insert(&keys, "a", r#"{"n": 1}"#, r#"{"keys": ["args"]}"#).await;
    let key = keys.texts("SELECT unique_key FROM jobs.job LIMIT 1").await.remove(0);
    for given in [key.as_str(), &key[..8], &key.to_uppercase(), &first, &second] {
        let shown = keys.json(("unique show", [given]), 0);
        assert_eq!(shown["unique_key"], json!(key), "{given}");
        assert_eq!((&shown["holder"]["holder"], &shown["holder_kind"]), (&json!(second), &json!("a")));
        assert!(shown["frees"].as_str().unwrap().contains("; at the latest at 20"), "{shown}");
        assert_eq!((&shown["jobs"][0]["id"], &shown["jobs"][0]["claims"]), (&json!(second), &json!(true)));
        assert_eq!((&shown["jobs"][1]["id"], &shown["jobs"][1]["replaced_by"]), (&json!(first), &json!(second)));
        assert_eq!(shown["suppressed"][0]["suppressed"], 1);
        assert_eq!(shown["waiting_inserts"], json!([]));
    }
    let text = keys.text(("unique show", &key), 0);
    for part in ["claimed by", &second, &format!("replaced by job {second}"), "Suppressed duplicates", "in 59m"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A free key, for one reason or another.
    keys.execute("UPDATE jobs.job SET unique_until = now() WHERE claims").await;
    assert_eq!(keys.json(("unique show", &key), 0)["jobs"][0]["reason"], "its claim has expired");
    keys.execute("UPDATE jobs.job SET unique_until = NULL, unique_states = 0 WHERE claims").await;
    let text = keys.text(("unique show", &key), 0);
    assert!(
        text.contains("no job: the next insert is no duplicate") && text.contains("its claim has ended for good"),
        "{text}"
    );
    keys.json("unique show unknown", 1);
    // A job that has no key is told so.
    let plain = keys.texts("SELECT id::text FROM jobs.insert_job('a')").await.remove(0);
    assert!(keys.refused(("unique show", &plain)).contains("has no unique key"));
}

#[test_support::test(schema("jobs"))]
async fn show_tells_which_inserts_wait_and_for_whom(keys: Migrated) {
    let mut open = keys.session(BLOCKER).await;
    let (_, ()) = tokio::join!(insert(&keys, "a", "{}", r#"{"key": "k"}"#), async {
        // Until the insert is seen to wait.
        let waits = "SELECT pid::text FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()";
        eventually!(!keys.texts(waits).await.is_empty(), "nothing waits");
        let shown = keys.json("unique show k", 1);
        let insert = &shown["waiting_inserts"][0];
        assert_eq!((&insert["waits_for"], &insert["blocker_application"]), (&json!("a key"), &json!("the blocker")));
        let text = keys.text("unique show k", 1);
        assert!(text.contains("Waiting inserts") && text.contains("idle in transaction"), "{text}");
        sqlx::raw_sql("COMMIT").execute(&mut open).await.unwrap();
    });
    assert_eq!(keys.json("unique show k", 0)["waiting_inserts"], json!([]));
}

#[test_support::test(schema("jobs"))]
async fn a_key_of_an_open_transaction_is_no_free_key(keys: Migrated) {
    let explain = "unique explain a --key k";
    assert_eq!(keys.json(explain, 0)["waits_for"], json!(null));
    let mut open = keys.session(BLOCKER).await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut open).await.unwrap();

    let explained = keys.json(explain, 1);
    assert_eq!(explained["waits_for"]["pid"], json!(pid));
    assert_eq!(explained["waits_for"]["application"], json!("the blocker"));
    let waits = format!("for the open transaction of pid {pid} the blocker (idle in transaction), which holds the key");
    let text = keys.text(explain, 1);
    assert!(text.contains(&format!("would wait {waits}")), "{text}");
    assert_eq!(keys.json("unique show k", 1)["insert_waits_for"]["pid"], json!(pid));
    let text = keys.text("unique show k", 1);
    assert!(text.contains(&format!("waits {waits}")) && !text.contains("no duplicate"), "{text}");

    sqlx::raw_sql("ROLLBACK").execute(&mut open).await.unwrap();
    let explained = keys.json(explain, 0);
    assert_eq!(explained["waits_for"], json!(null), "the trial left nothing");
    assert_eq!(keys.json("unique show k", 1)["insert_waits_for"], json!(null));
    assert_eq!(keys.texts("SELECT count(*)::text FROM jobs.job").await, ["0"]);
}

#[test_support::test(schema("jobs"))]
async fn release_frees_the_key_and_leaves_the_job(keys: Migrated) {
    let id = insert(&keys, "a", "{}", r#"{"key": "k"}"#).await;
    let dry = keys.json("unique release k --dry-run", 0);
    assert_eq!((&dry["holder"], &dry["released"]), (&json!(id), &json!(false)));
    let text = keys.text("unique release k --yes", 0);
    assert_eq!(text, format!("job {id} gave up its claim on k\n"));
    assert_eq!(keys.texts("SELECT state::text FROM jobs.job").await, ["available"]);
    assert_ne!(insert(&keys, "a", "{}", r#"{"key": "k2"}"#).await, id);
    for option in ["--yes", "--dry-run"] {
        assert_eq!(keys.json(("unique release k", option), 1)["holder"], Value::Null);
    }
}
