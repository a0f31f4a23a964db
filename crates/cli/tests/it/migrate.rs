//! `uniqueue migrate`.

use test_support::prelude::*;

use crate::support::{Migrated, has_psql, run_script};

#[test_support::test(unmigrated("jobs"))]
async fn status_is_right_before_and_after_and_a_second_migration_does_nothing(jobs: Migrated) {
    let before = jobs.json("migrate --status", 1);
    assert_eq!((&before["version"], &before["current"]), (&json!(0), &json!(false)));
    assert_eq!(before["waiting"].as_array().unwrap().len() as u64, before["needed"].as_u64().unwrap());
    assert_eq!(jobs.texts("SELECT nspname::text FROM pg_namespace WHERE nspname = 'jobs'").await, [""; 0]);

    let applied = jobs.json("migrate", 0);
    let needed = before["needed"].as_u64().unwrap();
    assert_eq!((&applied["version"], &applied["current"]), (&json!(needed), &json!(true)));
    assert_eq!(applied["waiting"], json!([]));
    let names = applied["applied"].as_array().unwrap();
    assert_eq!(names[0], json!("V1 job"));
    assert!(names.last().unwrap().as_str().unwrap().starts_with(&format!("V{needed} ")), "{names:?}");

    assert_eq!(jobs.json("migrate", 0)["applied"], json!([]));
    let after = jobs.json("migrate --status", 0);
    assert_eq!((&after["migrations"], &after["needed"]), (&applied["migrations"], &json!(needed)));
}

#[test_support::test(unmigrated("jobs"))]
async fn status_lists_applied_and_waiting_migrations(jobs: Migrated) {
    let status = |code: i32| jobs.text("migrate --status", code).lines().map(str::to_owned).collect::<Vec<_>>();
    let before = status(1);
    assert!(before[0] == "V1 job, waiting" && before[1].starts_with("V2 queue_and_runner, waiting"), "{before:?}");

    jobs.json("migrate", 0);
    assert!(!status(0).iter().any(|line| line.ends_with(", waiting")));
    jobs.execute("DELETE FROM jobs.schema_history WHERE version > 5").await;
    let behind = jobs.json("migrate --status", 1);
    assert_eq!(behind["migrations"].as_array().unwrap().len(), 5);
    let waiting: Vec<_> = behind["waiting"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(waiting[..2], ["V6 canonical_json", "V7 unique_policy"]);
    assert_eq!(waiting.len() as u64, behind["needed"].as_u64().unwrap() - 5);
    let lines = status(1);
    assert!(lines[4].starts_with("V5 fetch, applied 20") && lines[5] == "V6 canonical_json, waiting", "{lines:?}");
}

#[test_support::test(unmigrated("jobs"))]
async fn newer_schema_is_left_alone(jobs: Migrated) {
    let needed = jobs.json("migrate", 0)["needed"].clone();
    let later = |oldest: &str| {
        format!(
            "INSERT INTO jobs.schema_history VALUES (999, 'later', '2030-01-01T00:00:00Z', '1', {oldest})
                 ON CONFLICT (version) DO UPDATE SET oldest = excluded.oldest"
        )
    };
    jobs.execute(&later(&needed.to_string())).await;
    for line in ["migrate --status", "migrate"] {
        let output = jobs.command((line, "--json")).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), &status["version"], &status["current"]),
            (Some(0), &json!(999), &json!(true))
        );
        assert_eq!((&status["needed"], &status["applied"], &status["waiting"]), (&needed, &json!([]), &json!([])));
    }
    jobs.execute(&later("998")).await;
    let status = jobs.json("migrate --status", 1);
    assert_eq!((&status["version"], &status["current"]), (&json!(999), &json!(false)));
    let stderr = jobs.refused("migrate");
    assert!(stderr.starts_with("error: schema jobs is at version 999, which needs"), "{stderr}");
    assert!(stderr.contains("version 998: this one knows") && stderr.contains("\nhint: upgrade"), "{stderr}");
}

#[test_support::test(unmigrated("my-jobs"))]
async fn printed_sql_can_be_run_by_hand(jobs: Migrated) {
    if !has_psql() {
        return;
    }
    let printed = jobs.text("migrate --print", 0);
    assert_eq!(jobs.texts("SELECT nspname::text FROM pg_namespace WHERE nspname = 'my-jobs'").await, [""; 0]);
    run_script(&jobs.url, &printed);
    assert_eq!(jobs.json("migrate --status", 0)["current"], json!(true));
    assert_eq!(jobs.json("migrate", 0)["applied"], json!([]));
    assert_eq!(jobs.json("migrate --print", 0), json!({ "schema": "my-jobs", "sql": "" }));
    assert!(jobs.text("migrate --print", 0).starts_with("-- schema my-jobs has the version"));

    // The same as what the command makes itself, in a schema of the same name elsewhere.
    let other = Migrated::unmigrated("my-jobs").await;
    other.text("migrate", 0);
    let objects = "
        SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'my-jobs'::regnamespace
        UNION ALL
        SELECT format('%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum))
        FROM pg_class AS c LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE c.relnamespace = 'my-jobs'::regnamespace
        UNION ALL
        SELECT indexdef FROM pg_indexes WHERE schemaname = 'my-jobs'
        ORDER BY 1";
    let made = jobs.texts(objects).await;
    assert!(made.len() > 100, "{}", made.len());
    assert_eq!(made, other.texts(objects).await);
}

#[test_support::test(unmigrated("jobs"))]
async fn a_lock_that_another_transaction_holds_times_out(jobs: Migrated) {
    let _holder = jobs.session("BEGIN; CREATE SCHEMA jobs").await;
    let stderr = jobs.refused("migrate --lock-timeout 50ms");
    assert!(stderr.starts_with("error: cannot migrate schema jobs: ") && stderr.contains("lock timeout"), "{stderr}");
    assert!(stderr.contains("\nhint: another transaction holds a lock"), "{stderr}");
    jobs.refuses(&[
        (
            "migrate --lock-timeout soon",
            "error: invalid value 'soon' for '--lock-timeout <DURATION>': expected a length",
        ),
        ("migrate --status --print", "error: the argument '--status' cannot be used with '--print'"),
    ]);
}
