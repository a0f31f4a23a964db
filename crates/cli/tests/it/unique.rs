//! `uniqueue unique`: explain, holders, show, release, audit, backfill.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::support::{database, directory, execute, run_json, texts, uniqueue};

fn unique(url: &str, arguments: &[&str]) -> Command {
    let mut command = uniqueue();
    command.args(["unique"]).args(arguments).args(["--schema", "jobs"]).env("DATABASE_URL", url);
    command
}

/// The exit code and the text.
fn told(url: &str, arguments: &[&str]) -> (i32, String) {
    let output = unique(url, arguments).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn refused(url: &str, arguments: &[&str]) -> String {
    let output = unique(url, arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains("\nhint: "), "{arguments:?}: {stderr}");
    stderr
}

fn json_of(url: &str, arguments: &[&str]) -> (i32, Value) {
    run_json(unique(url, arguments).arg("--json"))
}

fn lines_of(url: &str, arguments: &[&str]) -> Vec<Value> {
    let (code, text) = told(url, &[arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A migrated database.
async fn queue() -> String {
    let url = database().await;
    assert!(
        uniqueue().args(["migrate", "--schema", "jobs"]).env("DATABASE_URL", &url).output().unwrap().status.success()
    );
    url
}

async fn insert(url: &str, kind: &str, args: &str, policy: &str) -> String {
    let insert = format!("SELECT id::text FROM jobs.insert_job('{kind}', '{args}', unique_policy => '{policy}')");
    texts(url, &insert).await.remove(0)
}

#[tokio::test]
async fn explain_says_what_an_insert_would_do_and_why() {
    let url = queue().await;
    let policy = r#"{"keys": ["args", "queue"], "args_keys": ["user_id"]}"#;
    let line = ["explain", "email.send", "--args", r#"{"user_id": 42, "n": 1}"#, "--queue", "notifications"];
    let line = [&line[..], &["--policy", policy]].concat();
    let key = "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f";
    let (code, free) = json_of(&url, &line);
    assert_eq!((code, &free["unique_key"], &free["outcome"]), (0, &json!(key), &json!("inserted")));
    assert_eq!(free["canonical"], r#"{"args":{"user_id":42},"queue":"notifications","type":"email.send"}"#);
    let holder = format!(
        "SELECT id::text FROM jobs.insert_job('email.send', '{{\"user_id\": 42}}', queue => 'notifications',
            unique_policy => '{policy}')"
    );
    let holder = texts(&url, &holder).await.remove(0);
    let (code, taken) = json_of(&url, &line);
    assert_eq!((code, &taken["holder"]["holder"], &taken["outcome"]), (1, &json!(holder), &json!("duplicate")));
    let (code, text) = told(&url, &line);
    assert_eq!(code, 1);
    let claims = "| while pending, scheduled, available, running, retryable";
    for part in [key, &holder, "would be a duplicate", claims, "when it is completed, cancelled or discarded"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The policy and the args from files, and a raw key.
    let files = directory();
    let (policy_file, args_file) = (files.path().join("policy.json"), files.path().join("args.json"));
    std::fs::write(&policy_file, policy).unwrap();
    std::fs::write(&args_file, r#"{"user_id": 42}"#).unwrap();
    let args_file = format!("@{}", args_file.display());
    let by_file = ["explain", "email.send", "--args", &args_file, "--queue", "notifications", "--policy"];
    let by_file = [&by_file[..], &[policy_file.to_str().unwrap()]].concat();
    let (code, by_file) = json_of(&url, &by_file);
    assert_eq!((code, &by_file["unique_key"], &by_file["canonical"]), (1, &taken["unique_key"], &taken["canonical"]));
    assert_eq!(json_of(&url, &["explain", "a", "--key", "free"]).0, 0);
}

#[tokio::test]
async fn explain_says_what_becomes_of_the_holder() {
    let url = queue().await;
    let holder = "SELECT id::text FROM jobs.insert_job(
        'a', '{\"i\": [1]}', scheduled_at => '2999-01-01', unique_policy => '{\"key\": \"k\", \"scope\": \"queued\"}')";
    let holder = texts(&url, holder).await.remove(0);
    let explain = |answer: &str| {
        let policy = format!(r#"{{"key": "k", "scope": "queued", {answer}}}"#);
        let line = ["explain", "a", "--args", r#"{"i": [2]}"#, "--policy", &policy];
        (told(&url, &line), json_of(&url, &line).1)
    };
    for (answer, code, outcome, text) in [
        (r#""on_conflict": "ignore""#, 1, "duplicate", "would be a duplicate"),
        (r#""on_conflict": "reject""#, 1, "rejected", "would be rejected"),
        (r#""on_conflict": "replace""#, 0, "inserted", "would be inserted, and replace the holder"),
        (r#""on_conflict": "run_again""#, 1, "covered", "the holder starts after the insert has committed"),
        (r#""update": "append""#, 1, "updated", "would update the holder"),
        (r#""update": "append", "max_items": 1"#, 0, "inserted", "the holder is full, and gives up its claim"),
    ] {
        let ((exit, said), json) = explain(answer);
        assert_eq!((exit, &json["outcome"]), (code, &json!(outcome)), "{answer}: {said}");
        assert!(said.contains(text) && said.contains(&holder), "{answer}: {said}");
        let replaced = if answer.contains("replace") { json!(holder) } else { Value::Null };
        assert_eq!(json["replaced"], replaced, "{answer}");
        let updated = outcome == "updated";
        assert_eq!(json["new_args"], if updated { json!({"i": [1, 2]}) } else { Value::Null }, "{answer}");
        assert_eq!(said.contains(r#"its new args     | {"i": [1, 2]}"#), updated, "{said}");
        assert_eq!(said.contains("its new due time | 2999-01-01T00:00:00Z"), updated, "{said}");
    }
    let append = r#"{"key": "k", "update": "append"}"#;
    let output = unique(&url, &["explain", "a", "--args", r#"{"i": 2}"#, "--policy", append]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("append needs an array in both jobs: \"i\""), "{said}");
    let running = insert(&url, "a", "{}", r#"{"key": "r"}"#).await;
    let start = format!("UPDATE jobs.job SET state = 'running', worker = gen_random_uuid() WHERE id = '{running}'");
    execute(&url, &start).await;
    let (code, said) = told(&url, &["explain", "a", "--policy", r#"{"key": "r", "on_conflict": "preempt"}"#]);
    assert!(code == 0 && said.contains("the holder, which runs and is cancelled"), "{said}");
}

#[tokio::test]
async fn an_empty_key_is_refused_by_every_command() {
    let url = queue().await;
    for line in [&["show", ""][..], &["release", "", "--yes"], &["explain", "a", "--key", ""]] {
        let output = unique(&url, line).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line:?}: {stderr}");
        assert!(stderr.contains("a unique key is not empty"), "{line:?}: {stderr}");
    }
    let long = "k".repeat(513);
    let output = unique(&url, &["show", &long]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("at most 512 bytes, and this has 513"));
}

#[tokio::test]
async fn key_and_the_policy_of_a_key_claim_alike() {
    let url = queue().await;
    let claimed =
        "SELECT concat_ws(' ', unique_key, unique_states, until_start, unique_until) FROM jobs.job ORDER BY id";
    for (option, value) in [("--key", "a"), ("--policy", r#"{"key": "b"}"#)] {
        let mut insert = uniqueue();
        insert.args(["job", "insert", "x", "--schema", "jobs", option, value]).env("DATABASE_URL", &url);
        assert_eq!(insert.output().unwrap().status.code(), Some(0), "{option}");
    }
    let claims = texts(&url, claimed).await;
    assert_eq!(claims[0].strip_prefix("a "), claims[1].strip_prefix("b "), "{claims:?}");
    for key in ["a", "b"] {
        let by_key = json_of(&url, &["explain", "x", "--key", key]);
        let by_policy = json_of(&url, &["explain", "x", "--policy", &format!(r#"{{"key": "{key}"}}"#)]);
        assert_eq!((by_key.0, &by_key.1["unique_key"]), (1, &by_policy.1["unique_key"]));
        assert_eq!(by_key.1["holder"]["claims_in"], by_policy.1["holder"]["claims_in"]);
    }
}

#[tokio::test]
async fn errors_in_a_policy_or_json_are_named() {
    let url = queue().await;
    for (arguments, expected) in [
        (&["explain", "a", "--policy", r#"{"keys": ["dance"]}"#][..], "must be one of type, queue, args, meta"),
        (&["explain", "a", "--policy", r#"{"keys": [}"#], "--policy is not JSON"),
        (&["explain", "a", "--policy", "/no/such/file"], "cannot read --policy from /no/such/file"),
        (
            &["explain", "a", "--args", "{", "--key", "k"],
            "--args is not JSON: EOF while parsing an object at line 1 column 1: \"{\"\n",
        ),
        (&["explain", "a", "--meta", "[]", "--key", "k"], "--meta is not an object: []"),
        (&["release", "k"], "error: "),
        (&["backfill", "--kind", "a", "--policy", "{}", "--batch", "0"], "batch"),
        (&["backfill", "--kind", "a", "--policy", "{}", "--on-collision", "cancel"], "needs confirmation"),
    ] {
        if arguments[0] == "release" {
            insert(&url, "a", "{}", r#"{"key": "k"}"#).await;
        }
        let output = unique(&url, arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    assert!(refused(&url, &["release", "k"]).contains("--yes"));
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
    assert_eq!(json_of(&url, &["show", "nobody's"]).0, 1);
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
        let waits = "SELECT pid::text FROM pg_locks WHERE NOT granted AND database IS NULL";
        let began = std::time::Instant::now();
        while texts(&url, waits).await.is_empty() {
            assert!(began.elapsed().as_secs() < 20, "nothing waits");
        }
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

#[tokio::test]
async fn audit_starts_lists_and_stops() {
    let url = queue().await;
    let (code, text) = told(&url, &["audit"]);
    assert!(code == 0 && text.starts_with("no duplicates are counted"), "{text}");
    let (_, audit) = json_of(&url, &["audit", "a", "--start", "--keep", "30d"]);
    assert_eq!((&audit["kinds"][0]["is_audited"], &audit["kinds"][0]["keep"]), (&json!(true), &json!(2_592_000.0)));
    for _ in 0..3 {
        insert(&url, "a", "{}", r#"{"key": "k"}"#).await;
    }
    let (_, audit) = json_of(&url, &["audit", "a"]);
    assert_eq!((&audit["kinds"][0]["suppressed"], &audit["keys"][0]["suppressed"]), (&json!(2), &json!(2)));
    let (code, text) = told(&url, &["audit"]);
    assert!(code == 0 && text.contains("30d") && text.contains(" k "), "{text}");
    let (_, audit) = json_of(&url, &["audit", "a", "--stop"]);
    assert_eq!((&audit["kinds"][0]["is_audited"], &audit["kinds"][0]["suppressed"]), (&json!(false), &json!(2)));
    assert_eq!(unique(&url, &["audit", "--start"]).output().unwrap().status.code(), Some(2), "of which kind?");
}

#[tokio::test]
async fn backfill_looks_first_then_gives_keys_and_says_what_is_left() {
    let url = queue().await;
    execute(
        &url,
        "SELECT count(i.id) FROM generate_series(1, 60) AS n,
            jobs.insert_job('a', jsonb_build_object('n', n % 50)) AS i",
    )
    .await;
    let line = ["backfill", "--kind", "a", "--policy", r#"{"keys": ["args"]}"#];
    let (code, dry) = json_of(&url, &[&line[..], &["--dry-run"]].concat());
    assert_eq!((code, &dry["claimed"], &dry["collided"]), (1, &json!(50), &json!(10)));
    assert_eq!(texts(&url, "SELECT count(*)::text FROM jobs.job WHERE unique_key IS NOT NULL").await, ["0"]);
    let (code, text) = told(&url, &[&line[..], &["--dry-run"]].concat());
    assert!(code == 1 && text.contains("would get a key and claim it") && text.contains("(10 rows)"), "{text}");
    let (code, done) = json_of(&url, &line);
    assert_eq!((code, &done["claimed"], &done["collided"], &done["cancelled"]), (1, &json!(50), &json!(10), &json!(0)));
    let (code, done) = json_of(&url, &[&line[..], &["--on-collision", "cancel", "--yes"]].concat());
    assert_eq!((code, &done["unchanged"], &done["cancelled"]), (0, &json!(50), &json!(10)));
    assert_eq!(json_of(&url, &line).0, 0);
    let (code, other) = json_of(&url, &["backfill", "--kind", "a", "--policy", "{}"]);
    assert_eq!((code, &other["other_key"]), (1, &json!(50)));
    let (code, unfit) =
        json_of(&url, &["backfill", "--kind", "a", "--policy", r#"{"keys": ["args"], "args_keys": ["m"]}"#]);
    assert_eq!((code, &unfit["unfit"]), (1, &json!(50)));
}

#[tokio::test]
async fn a_schema_that_lacks_migrations_is_told_what_to_do() {
    let url = database().await;
    for arguments in [&["holders"][..], &["show", "k"], &["audit"], &["release", "k", "--dry-run"]] {
        let stderr = refused(&url, arguments);
        assert!(stderr.contains("uniqueue migrate"), "{stderr}");
    }
}

#[tokio::test]
async fn killed_in_the_middle_a_backfill_goes_on_when_it_is_run_again() {
    const JOBS: u64 = 3_000;
    let url = queue().await;
    execute(
        &url,
        "INSERT INTO jobs.job (id, kind, args)
         SELECT jobs.new_job_id(), 'a', jsonb_build_object('n', n) FROM generate_series(1, 3000) AS n",
    )
    .await;
    let line = ["backfill", "--kind", "a", "--policy", r#"{"keys": ["args"]}"#];
    let mut child = unique(&url, &[&line[..], &["--batch", "1"]].concat()).stdout(Stdio::null()).spawn().unwrap();
    let keyed = async || -> u64 {
        let keyed = texts(&url, "SELECT count(*)::text FROM jobs.job WHERE unique_key IS NOT NULL").await;
        keyed[0].parse().unwrap()
    };
    while keyed().await < 20 {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(keyed().await < JOBS, "killed too late");
    let (code, done) = json_of(&url, &line);
    let of = |name: &str| done[name].as_u64().unwrap();
    assert_eq!((code, of("jobs"), of("unchanged") + of("claimed")), (0, JOBS, JOBS), "{done}");
    assert!(of("unchanged") >= 20, "{done}");
    assert_eq!(texts(&url, "SELECT count(*)::text FROM jobs.job WHERE claims").await, [JOBS.to_string()]);
}

/// Interrupts a command that waits for a lock. It prints this text and cancels its statement.
async fn interrupted_as_it_waits(url: &str, arguments: &[&str], said: &str) {
    let waits =
        "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let until = async |wanted: &str| {
        let begun_at = Instant::now();
        while texts(url, waits).await != [wanted] {
            assert!(begun_at.elapsed().as_secs() < 20, "{wanted} statements that wait: {arguments:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let child = unique(url, arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("1").await;
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr), (Some(130), format!("error: interrupted: {said}\n")), "{arguments:?}");
    until("0").await;
}

#[tokio::test]
async fn interrupted_audit_does_not_say_that_nothing_was_changed() {
    let url = queue().await;
    let mut holder = PgConnection::connect(&url).await.unwrap();
    // The counters, which are listed after the audit has begun.
    sqlx::raw_sql("BEGIN; LOCK TABLE jobs.duplicate_count").execute(&mut holder).await.unwrap();
    for (arguments, said) in [
        (&["audit", "email.send", "--start"][..], "the change may have been made"),
        (&["audit"], "nothing was changed"),
    ] {
        interrupted_as_it_waits(&url, arguments, said).await;
    }
    assert_eq!(texts(&url, "SELECT kind FROM jobs.duplicate_audit").await, ["email.send"], "the start was committed");
}

#[tokio::test]
async fn interrupted_backfill_says_what_it_may_have_left_unless_it_only_looked() {
    let url = queue().await;
    insert(&url, "a", "{}", r#"{"key": "k"}"#).await;
    let mut holder = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE jobs.job").execute(&mut holder).await.unwrap();
    let line = ["backfill", "--kind", "a", "--policy", r#"{"keys": ["args"]}"#];
    for (arguments, said) in [
        (line.to_vec(), "finished batches stay; run it again for the rest"),
        ([&line[..], &["--dry-run"]].concat(), "nothing was changed"),
    ] {
        interrupted_as_it_waits(&url, &arguments, said).await;
    }
}

#[tokio::test]
async fn what_begins_with_a_dash_can_be_given_and_what_is_told_can_be_pasted() {
    let url = queue().await;
    let ago = ["explain", "a", "--key", "free", "--scheduled-at"];
    assert_eq!(json_of(&url, &[&ago[..], &["-2h"]].concat()).0, 0);
    insert(&url, "a", "{}", r#"{"key": "-dash it''s"}"#).await;
    insert(&url, "a", "{}", r#"{"key": "z"}"#).await;

    let (_, page) = told(&url, &["holders", "--limit", "1"]);
    let after = page
        .lines()
        .find_map(|line| line.strip_prefix(concat!("next: ", env!("CARGO_BIN_EXE_uniqueue"), " ")))
        .expect(&page);
    let after = after.replace("--database-url URL ", "");
    let line = format!("{} {after}", env!("CARGO_BIN_EXE_uniqueue"));
    let next = Command::new("sh").args(["-c", &line]).env("DATABASE_URL", &url).output().unwrap();
    let next = String::from_utf8(next.stdout).unwrap();
    assert!(next.contains("(1 row)\n") && next.contains("\n z "), "{line}: {next}");

    let mut release = uniqueue();
    release.args(["unique", "release", "--yes", "--schema", "jobs", "--", "-dash it's"]).env("DATABASE_URL", &url);
    let released = release.output().unwrap();
    assert_eq!(released.status.code(), Some(0), "{released:?}");
    assert!(String::from_utf8(released.stdout).unwrap().ends_with("gave up its claim on -dash it's\n"));
}
