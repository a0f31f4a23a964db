//! `unique list`, `show` and `release`.

use test_support::prelude::*;

use super::{insert, json_of, queue, refused, told};
use crate::support::{execute, texts};

fn lines_of(url: &str, arguments: &[&str]) -> Vec<Value> {
    let (code, text) = told(url, &[arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn holders_are_listed_by_key_kind_queue_and_page() {
    let url = queue().await;
    for n in 0..5 {
        insert(&url, "a", "{}", &format!(r#"{{"key": "sync:{n}"}}"#)).await;
    }
    insert(&url, "b", "{}", r#"{"key": "other"}"#).await;
    insert(&url, "b", "{}", r#"{"key": "syncx"}"#).await;
    let keys = |arguments: &[&str]| -> Vec<String> {
        let lines = lines_of(&url, &[&["holders"], arguments].concat());
        lines.iter().map(|line| line["unique_key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&[]).len(), 7);
    assert_eq!(keys(&["--prefix", "sync:"]), ["sync:0", "sync:1", "sync:2", "sync:3", "sync:4"]);
    assert_eq!(keys(&["--prefix", "sync:", "--after", "sync:2", "--limit", "1"]), ["sync:3"]);
    assert_eq!(keys(&["--kind", "b"]), ["other", "syncx"]);
    assert_eq!(keys(&["--queue", "nowhere"]), [""; 0]);
    assert_eq!(keys(&["--prefix", "x' OR true --"]), [""; 0]);
    let (code, text) = told(&url, &["holders", "--limit", "2"]);
    assert_eq!(code, 0);
    assert!(text.contains("(2 rows)") && text.contains("--after=sync:0\n"), "{text}");
    let line = &lines_of(&url, &["holders", "--kind", "b", "--limit", "1"])[0];
    assert_eq!((&line["kind"], &line["holder_state"]), (&json!("b"), &json!("available")));
    assert!(line["frees"].as_str().unwrap().starts_with("when it is "), "{line}");
}

#[tokio::test]
async fn show_tells_who_holds_a_key_who_had_it_and_why() {
    let url = queue().await;
    let policy = r#"{"keys": ["args"], "on_conflict": "replace", "ttl": "PT1H"}"#;
    let first = insert(&url, "a", r#"{"n": 1}"#, policy).await;
    let second = insert(&url, "a", r#"{"n": 1}"#, policy).await;
    execute(&url, "SELECT jobs.audit_duplicates('a')").await;
    insert(&url, "a", r#"{"n": 1}"#, r#"{"keys": ["args"]}"#).await;
    let key = texts(&url, "SELECT unique_key FROM jobs.job LIMIT 1").await.remove(0);
    for given in [key.as_str(), &key[..8], &key.to_uppercase(), &first, &second] {
        let (code, shown) = json_of(&url, &["show", given]);
        assert_eq!((code, &shown["unique_key"]), (0, &json!(key)), "{given}");
        assert_eq!((&shown["holder"]["holder"], &shown["holder_kind"]), (&json!(second), &json!("a")));
        assert!(shown["frees"].as_str().unwrap().contains("; at the latest at 20"), "{shown}");
        assert_eq!((&shown["jobs"][0]["id"], &shown["jobs"][0]["claims"]), (&json!(second), &json!(true)));
        assert_eq!((&shown["jobs"][1]["id"], &shown["jobs"][1]["replaced_by"]), (&json!(first), &json!(second)));
        assert_eq!(shown["suppressed"][0]["suppressed"], 1);
        assert_eq!(shown["waiting_inserts"], json!([]));
    }
    let (code, text) = told(&url, &["show", &key]);
    assert_eq!(code, 0);
    for part in ["claimed by", &second, &format!("replaced by job {second}"), "Suppressed duplicates", "in 59m"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A free key, for one reason or another.
    execute(&url, "UPDATE jobs.job SET unique_until = now() WHERE claims").await;
    assert_eq!(json_of(&url, &["show", &key]).1["jobs"][0]["reason"], "its claim has expired");
    execute(&url, "UPDATE jobs.job SET unique_until = NULL, unique_states = 0 WHERE claims").await;
    let (code, text) = told(&url, &["show", &key]);
    assert_eq!(code, 0);
    assert!(
        text.contains("no job: the next insert is no duplicate") && text.contains("its claim has ended for good"),
        "{text}"
    );
    assert_eq!(json_of(&url, &["show", "unknown"]).0, 1);
    // A job that has no key is told so.
    let plain = texts(&url, "SELECT id::text FROM jobs.insert_job('a')").await.remove(0);
    assert!(refused(&url, &["show", &plain]).contains("has no unique key"));
}

#[tokio::test]
async fn show_tells_which_inserts_wait_and_for_whom() {
    let url = queue().await;
    let mut open = PgConnection::connect(&url).await.unwrap();
    let insert = "SELECT id::text FROM jobs.insert_job('a', unique_policy => '{\"key\": \"k\"}')";
    sqlx::raw_sql("SET application_name = 'the blocker'; BEGIN").execute(&mut open).await.unwrap();
    sqlx::raw_sql(insert).execute(&mut open).await.unwrap();
    let mut waiting = PgConnection::connect(&url).await.unwrap();
    let (waits, ()) = tokio::join!(async { sqlx::query(insert).execute(&mut waiting).await }, async {
        // Until the insert is seen to wait.
        let waits = "SELECT pid::text FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()";
        test_support::eventually!(!texts(&url, waits).await.is_empty(), "nothing waits");
        let (code, shown) = json_of(&url, &["show", "k"]);
        assert_eq!(code, 1, "nothing of it has been committed");
        let insert = &shown["waiting_inserts"][0];
        assert_eq!((&insert["waits_for"], &insert["blocker_application"]), (&json!("a key"), &json!("the blocker")));
        let (_, text) = told(&url, &["show", "k"]);
        assert!(text.contains("Waiting inserts") && text.contains("idle in transaction"), "{text}");
        sqlx::raw_sql("COMMIT").execute(&mut open).await.unwrap();
    });
    waits.unwrap();
    assert_eq!(json_of(&url, &["show", "k"]).1["waiting_inserts"], json!([]));
}

#[tokio::test]
async fn a_key_of_an_open_transaction_is_no_free_key() {
    let url = queue().await;
    let explain = ["explain", "a", "--key", "k"];
    assert_eq!(json_of(&url, &explain).1["waits_for"], json!(null));
    let mut open = PgConnection::connect(&url).await.unwrap();
    let insert = "SELECT id::text FROM jobs.insert_job('a', unique_policy => '{\"key\": \"k\"}')";
    sqlx::raw_sql("SET application_name = 'the blocker'; BEGIN").execute(&mut open).await.unwrap();
    sqlx::raw_sql(insert).execute(&mut open).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut open).await.unwrap();

    let (code, explained) = json_of(&url, &explain);
    assert_eq!((code, &explained["waits_for"]["pid"]), (1, &json!(pid)));
    assert_eq!(explained["waits_for"]["application"], json!("the blocker"));
    let waits = format!("for the open transaction of pid {pid} the blocker (idle in transaction), which holds the key");
    let (code, text) = told(&url, &explain);
    assert!(code == 1 && text.contains(&format!("would wait {waits}")), "{text}");
    assert_eq!(json_of(&url, &["show", "k"]).1["insert_waits_for"]["pid"], json!(pid));
    let (_, text) = told(&url, &["show", "k"]);
    assert!(text.contains(&format!("waits {waits}")) && !text.contains("no duplicate"), "{text}");

    sqlx::raw_sql("ROLLBACK").execute(&mut open).await.unwrap();
    let (code, explained) = json_of(&url, &explain);
    assert_eq!((code, &explained["waits_for"]), (0, &json!(null)), "the trial left nothing");
    assert_eq!(json_of(&url, &["show", "k"]).1["insert_waits_for"], json!(null));
    assert_eq!(texts(&url, "SELECT count(*)::text FROM jobs.job").await, ["0"]);
}

#[tokio::test]
async fn release_frees_the_key_and_leaves_the_job() {
    let url = queue().await;
    let id = insert(&url, "a", "{}", r#"{"key": "k"}"#).await;
    let (code, dry) = json_of(&url, &["release", "k", "--dry-run"]);
    assert_eq!((code, &dry["holder"], &dry["released"]), (0, &json!(id), &json!(false)));
    let (code, text) = told(&url, &["release", "k", "--yes"]);
    assert_eq!((code, text), (0, format!("job {id} gave up its claim on k\n")));
    assert_eq!(texts(&url, "SELECT state::text FROM jobs.job").await, ["available"]);
    assert_ne!(insert(&url, "a", "{}", r#"{"key": "k2"}"#).await, id);
    for arguments in [&["release", "k", "--yes"][..], &["release", "k", "--dry-run"]] {
        let (code, again) = json_of(&url, arguments);
        assert_eq!((code, &again["holder"]), (1, &Value::Null));
    }
}
