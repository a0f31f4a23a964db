//! `unique audit` and `backfill`.

use test_support::prelude::*;

use super::insert;
use crate::support::{Migrated, Words, interrupted, printed};

#[test_support::test(schema("jobs"))]
async fn audit_starts_lists_and_stops(keys: Migrated) {
    let text = keys.text("unique audit", 0);
    assert!(text.starts_with("no duplicates are counted"), "{text}");
    let audit = keys.json("unique audit a --start --keep 30d", 0);
    assert_eq!((&audit["kinds"][0]["is_audited"], &audit["kinds"][0]["keep"]), (&json!(true), &json!(2_592_000.0)));
    for _ in 0..3 {
        insert(&keys, "a", "{}", r#"{"key": "k"}"#).await;
    }
    let audit = keys.json("unique audit a", 0);
    assert_eq!((&audit["kinds"][0]["suppressed"], &audit["keys"][0]["suppressed"]), (&json!(2), &json!(2)));
    let text = keys.text("unique audit", 0);
    assert!(text.contains("30d") && text.contains(" k "), "{text}");
    let audit = keys.json("unique audit a --stop", 0);
    assert_eq!((&audit["kinds"][0]["is_audited"], &audit["kinds"][0]["suppressed"]), (&json!(false), &json!(2)));
    // The command names no kind.
    keys.refused("unique audit --start");
}

#[test_support::test(schema("jobs"))]
async fn backfill_looks_first_then_gives_keys_and_says_what_is_left(keys: Migrated) {
    let call = "SELECT count(i.id) FROM generate_series(1, 60) AS n,
            jobs.insert_job('a', jsonb_build_object('n', n % 50)) AS i";
    keys.execute(call).await;
    let line = ("unique backfill --kind a --policy", [r#"{"keys": ["args"]}"#]);
    let dry = keys.json((line, "--dry-run"), 1);
    assert_eq!((&dry["claimed"], &dry["collided"]), (&json!(50), &json!(10)));
    assert_eq!(keys.texts("SELECT count(*)::text FROM jobs.job WHERE unique_key IS NOT NULL").await, ["0"]);
    let text = keys.text((line, "--dry-run"), 1);
    assert!(text.contains("would get a key and claim it") && text.contains("(10 rows)"), "{text}");
    let done = keys.json(line, 1);
    assert_eq!((&done["claimed"], &done["collided"], &done["cancelled"]), (&json!(50), &json!(10), &json!(0)));
    let done = keys.json((line, "--on-collision cancel --yes"), 0);
    assert_eq!((&done["unchanged"], &done["cancelled"]), (&json!(50), &json!(10)));
    keys.json(line, 0);
    let other = keys.json("unique backfill --kind a --policy {}", 1);
    assert_eq!(other["other_key"], json!(50));
    let unfit = keys.json(("unique backfill --kind a --policy", [r#"{"keys": ["args"], "args_keys": ["m"]}"#]), 1);
    assert_eq!(unfit["unfit"], json!(50));
}

#[test_support::test(unmigrated("jobs"))]
async fn a_schema_that_lacks_migrations_is_told_what_to_do(keys: Migrated) {
    for line in ["holders", "show k", "audit", "release k --dry-run"] {
        let stderr = keys.refused(("unique", line));
        assert!(stderr.contains("\nhint: ") && stderr.contains("uniqueue migrate"), "{stderr}");
    }
}

#[test_support::test(schema("jobs"))]
async fn killed_in_the_middle_a_backfill_goes_on_when_it_is_run_again(keys: Migrated) {
    const JOBS: u64 = 3_000;
    let insert = "INSERT INTO jobs.job (id, kind, args)
         SELECT jobs.new_job_id(), 'a', jsonb_build_object('n', n) FROM generate_series(1, 3000) AS n";
    keys.execute(insert).await;
    let line = ("unique backfill --kind a --policy", [r#"{"keys": ["args"]}"#]);
    let mut child = keys.command((line, "--batch 1")).stdout(Stdio::null()).spawn().unwrap();
    let keyed = async || -> u64 {
        let keyed = keys.texts("SELECT count(*)::text FROM jobs.job WHERE unique_key IS NOT NULL").await;
        keyed[0].parse().unwrap()
    };
    while keyed().await < 20 {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(keyed().await < JOBS, "killed too late");
    let done = keys.json(line, 0);
    let of = |name: &str| done[name].as_u64().unwrap();
    assert_eq!((of("jobs"), of("unchanged") + of("claimed")), (JOBS, JOBS), "{done}");
    assert!(of("unchanged") >= 20, "{done}");
    assert_eq!(keys.texts("SELECT count(*)::text FROM jobs.job WHERE claims").await, [JOBS.to_string()]);
}

/// Interrupts a command that waits for a lock. It prints this text and cancels its statement.
async fn interrupted_as_it_waits(keys: &Migrated, line: impl Words, said: &str) {
    let waits =
        "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let until = async |wanted: &str| {
        eventually!(keys.texts(waits).await == [wanted], "{wanted} statements that wait: {said}");
    };
    let child = keys.command(line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("1").await;
    assert_eq!(interrupted(child, "INT"), format!("error: interrupted: {said}\n"));
    until("0").await;
}

#[test_support::test(schema("jobs"))]
async fn interrupted_audit_does_not_say_that_nothing_was_changed(keys: Migrated) {
    // The counters, which are listed after the audit has begun.
    let _holder = keys.session("BEGIN; LOCK TABLE jobs.duplicate_count").await;
    interrupted_as_it_waits(&keys, "unique audit email.send --start", "the change may have been made").await;
    interrupted_as_it_waits(&keys, "unique audit", "nothing was changed").await;
    assert_eq!(keys.texts("SELECT kind FROM jobs.duplicate_audit").await, ["email.send"], "the start was committed");
}

#[test_support::test(schema("jobs"))]
async fn interrupted_backfill_says_what_it_may_have_left_unless_it_only_looked(keys: Migrated) {
    insert(&keys, "a", "{}", r#"{"key": "k"}"#).await;
    let _holder = keys.session("BEGIN; LOCK TABLE jobs.job").await;
    let line = ("unique backfill --kind a --policy", [r#"{"keys": ["args"]}"#]);
    interrupted_as_it_waits(&keys, line, "finished batches stay; run it again for the rest").await;
    interrupted_as_it_waits(&keys, (line, "--dry-run"), "nothing was changed").await;
}

#[test_support::test(schema("jobs"))]
async fn what_begins_with_a_dash_can_be_given_and_what_is_told_can_be_pasted(keys: Migrated) {
    keys.json("unique explain a --key free --scheduled-at -2h", 0);
    insert(&keys, "a", "{}", r#"{"key": "-dash it''s"}"#).await;
    insert(&keys, "a", "{}", r#"{"key": "z"}"#).await;

    let page = keys.text("unique holders --limit 1", 0);
    let after = page
        .lines()
        .find_map(|line| line.strip_prefix(concat!("next: ", env!("CARGO_BIN_EXE_uniqueue"), " ")))
        .expect(&page);
    let after = after.replace("--database-url URL ", "");
    let line = format!("{} {after}", env!("CARGO_BIN_EXE_uniqueue"));
    let next = printed(Command::new("sh").args(["-c", &line]).env("DATABASE_URL", &keys.url), 0);
    assert!(next.contains("(1 row)\n") && next.contains("\n z "), "{line}: {next}");

    let in_default_schema = Migrated::at(&keys.url);
    let released = in_default_schema.text(("unique release --yes --schema jobs --", ["-dash it's"]), 0);
    assert!(released.ends_with("gave up its claim on -dash it's\n"), "{released}");
    assert_eq!(keys.texts("SELECT verb FROM jobs.change_log").await, ["release_claim"]);
}
