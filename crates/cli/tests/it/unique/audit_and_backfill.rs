//! `unique audit` and `backfill`.

use std::process::{Command, Stdio};

use test_support::prelude::*;

use super::{insert, json_of, queue, refused, told, unique};
use crate::support::{database, execute, texts, uniqueue};

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
        eventually!(texts(url, waits).await == [wanted], "{wanted} statements that wait: {arguments:?}");
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
    assert_eq!(texts(&url, "SELECT verb FROM jobs.change_log").await, ["release_claim"]);
}
