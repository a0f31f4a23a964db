//! `uniqueue periodic`, and the backfill of groups.

use test_support::prelude::*;

use crate::support::{Migrated, execute, texts};

#[test_support::test]
async fn periodic_jobs_are_listed_run_paused_and_removed(queues: Migrated) {
    let odd = "it's; DROP TABLE uniqueue.periodic --";
    execute(
        &queues.url,
        "INSERT INTO uniqueue.periodic (name, kind, schedule, queue) VALUES
            ('daily', 'digest', '0 9 * * MON-FRI', 'emails'),
            ('it''s; DROP TABLE uniqueue.periodic --', 'sweep', 'PT15M', 'default');
         UPDATE uniqueue.periodic SET problem = 'no such zone', time_zone = 'Mars/Base' WHERE name = 'daily'",
    )
    .await;
    let text = queues.text(&["periodic", "list"], 0);
    let daily = text.lines().find(|line| line.contains("daily")).unwrap();
    assert!(
        daily.contains("0 9 * * MON-FRI") && daily.contains("cannot run") && daily.contains("no such zone"),
        "{text}"
    );
    let listed = queues.lines(&["periodic", "list", "--json"]);
    assert_eq!((&listed[0]["name"], &listed[1]["schedule"]), (&json!("daily"), &json!("PT15M")));

    let text = queues.text(&["periodic", "run", odd], 0);
    let id = texts(&queues.url, "SELECT id::text FROM uniqueue.job").await.remove(0);
    assert_eq!(text, format!("inserted job {id}\n"));
    let ran = queues.json(&["periodic", "run", odd], 0);
    assert_eq!((&ran["name"], ran["job"].is_string(), &ran["duplicate"]), (&json!(odd), true, &json!(false)));
    let key = "UPDATE uniqueue.periodic SET unique_policy = '{\"key\": \"k\"}' WHERE name = 'daily'";
    execute(&queues.url, key).await;
    let first = queues.json(&["periodic", "run", "daily"], 0);
    assert_eq!(first["duplicate"], json!(false));
    let again = queues.json(&["periodic", "run", "daily"], 0);
    assert_eq!(again, json!({"name": "daily", "job": first["job"], "duplicate": true}));
    let holder = first["job"].as_str().unwrap();
    assert_eq!(
        queues.text(&["periodic", "run", "daily"], 0),
        format!("duplicate, nothing was inserted: the key is held by job {holder}\n")
    );
    assert_eq!(queues.text(&["periodic", "pause", odd], 0), format!("periodic job {odd} is paused\n"));
    assert!(queues.text(&["periodic", "list"], 0).contains("| paused "));
    let resumed = queues.json(&["periodic", "resume", odd], 0);
    assert_eq!(resumed, json!({"name": odd, "is": "resumed"}));
    assert_eq!(queues.text(&["periodic", "remove", odd], 0), format!("periodic job {odd} is removed\n"));

    for verb in ["run", "pause", "resume", "remove"] {
        let output = queues.command(&["periodic", verb, odd]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{verb}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("no such periodic job: "), "{verb}");
    }
}

#[test_support::test]
async fn periodic_jobs_are_added_and_changed(queues: Migrated) {
    let add = ["periodic", "add", "daily", "digest.send", "0 9 * * MON-FRI", "--time-zone", "Europe/Berlin"];
    let text = queues.text(&[&add[..], &["--queue", "emails", "--args", r#"{"to": "all"}"#]].concat(), 0);
    assert_eq!(text, "periodic job daily is added\n");
    let output = queues.command(&add).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("periodic job \"daily\" exists"));
    let set = ["periodic", "set", "daily", "--schedule", "0 22-6 * * FRI-MON", "--catch-up", "skip", "--json"];
    let row: Value = serde_json::from_str(&queues.text(&set, 0)).unwrap();
    let members =
        ["name", "kind", "schedule", "time_zone", "queue", "catch_up", "source"].map(|member| row[member].clone());
    let expected = json!(["daily", "digest.send", "0 22-6 * * FRI-MON", "Europe/Berlin", "emails", "skip", "database"]);
    assert_eq!(json!(members), expected);
    assert_eq!(row["args"], json!({"to": "all"}));
    let expires_in = "SELECT expires_in::text FROM uniqueue.periodic";
    queues.text(&["periodic", "set", "daily", "--expires-in", "90s"], 0);
    assert_eq!(texts(&queues.url, expires_in).await, ["00:01:30"]);
    queues.text(&["periodic", "set", "daily", "--expires-in", "0s"], 0);
    assert_eq!(texts(&queues.url, expires_in).await, ["00:00:00"]);
    for (line, code) in [
        (vec!["periodic", "set", "daily", "--schedule", "0 25 * * *"], 2),
        (vec!["periodic", "add", "other", "digest.send", "every day"], 2),
        (vec!["periodic", "set", "unknown", "--priority", "1"], 1),
    ] {
        assert_eq!(queues.command(&line).output().unwrap().status.code(), Some(code), "{line:?}");
    }
    execute(&queues.url, "UPDATE uniqueue.periodic SET source = 'code'").await;
    let output = queues.command(&["periodic", "set", "daily", "--priority", "-1"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("it is defined in code"));
}

#[test_support::test]
async fn backfill_looks_first_then_puts_waiting_jobs_in_groups_and_says_what_is_left(queues: Migrated) {
    execute(
        &queues.url,
        "SELECT count(i.id) FROM generate_series(1, 60) AS n,
            uniqueue.insert_job('a', jsonb_build_object('n', n % 50)) AS i",
    )
    .await;
    let line = ["queue", "backfill", "--kind", "a", "--policy", r#"{"keys": ["args"]}"#, "--group-limit", "3"];
    let json = |more: &[&str], code: i32| -> Value {
        serde_json::from_str(&queues.text(&[&line[..], more, &["--json"]].concat(), code)).unwrap()
    };
    let grouped = "SELECT count(*)::text FROM uniqueue.job WHERE group_key IS NOT NULL AND group_limit = 3";
    assert_eq!(json(&["--dry-run"], 0)["grouped"], json!(60));
    assert_eq!(texts(&queues.url, grouped).await, ["0"]);
    let dry = queues.text(&[&line[..], &["--dry-run"]].concat(), 0);
    assert!(dry.contains("would get a group") && dry.contains("60"), "{dry}");
    execute(
        &queues.url,
        "UPDATE uniqueue.job SET state = 'running', worker = gen_random_uuid()
         WHERE id = (SELECT min(id::text)::uuid FROM uniqueue.job)",
    )
    .await;
    let done = json(&[], 1);
    assert_eq!((&done["grouped"], &done["running"], &done["kind"]), (&json!(59), &json!(1), &json!("a")));
    assert_eq!(texts(&queues.url, grouped).await, ["59"]);
    let left = queues.text(&line, 1);
    assert!(left.contains("run without it") && left.contains("have it already"), "{left}");
    execute(&queues.url, "UPDATE uniqueue.job SET state = 'available' WHERE state = 'running'").await;
    assert_eq!(json(&[], 0)["grouped"], json!(1));
    let one = ["queue", "backfill", "--kind", "a", "--group", "all", "--in-order"];
    assert!(queues.text(&one, 1).contains("(--regroup)"));
    queues.text(&[&one[..], &["--regroup", "--batch", "7"]].concat(), 0);
    let in_order =
        "SELECT count(*)::text FROM uniqueue.job WHERE group_key = 'all' AND in_order AND group_limit IS NULL";
    assert_eq!(texts(&queues.url, in_order).await, ["60"]);
    for (words, expected) in [
        (&["--kind", "a"][..], "required"),
        (&["--kind", "a", "--group", ""], "key"),
        (&["--kind", "a", "--group", "b", "--batch", "0"], "batch"),
        (&["--kind", "a", "--group", "b", "--group-limit", "2", "--in-order"], "must be 1 for a job that is in_order"),
        (&["--kind", "a", "--policy", "{}", "--group", "b"], "cannot be used with"),
    ] {
        let stderr = queues.refused(&[&["queue", "backfill"], words].concat());
        assert!(stderr.contains(expected), "{words:?}: {stderr}");
    }
}
