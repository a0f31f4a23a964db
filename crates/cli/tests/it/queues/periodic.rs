//! `uniqueue periodic`, and the backfill of groups.

use test_support::prelude::*;

use crate::support::Migrated;

#[test_support::test]
async fn periodic_jobs_are_listed_run_paused_and_removed(queues: Migrated) {
    let odd = "it's; DROP TABLE uniqueue.periodic --";
    let insert = "INSERT INTO uniqueue.periodic (name, kind, schedule, queue) VALUES
            ('daily', 'digest', '0 9 * * MON-FRI', 'emails'),
            ('it''s; DROP TABLE uniqueue.periodic --', 'sweep', 'PT15M', 'default');
         UPDATE uniqueue.periodic SET problem = 'no such zone', time_zone = 'Mars/Base' WHERE name = 'daily'";
    queues.execute(insert).await;
    let text = queues.text("periodic list", 0);
    let daily = text.lines().find(|line| line.contains("daily")).unwrap();
    assert!(
        daily.contains("0 9 * * MON-FRI") && daily.contains("cannot run") && daily.contains("no such zone"),
        "{text}"
    );
    let listed = queues.lines("periodic list");
    assert_eq!((&listed[0]["name"], &listed[1]["schedule"]), (&json!("daily"), &json!("PT15M")));

    let text = queues.text(["periodic", "run", odd], 0);
    let id = queues.texts("SELECT id::text FROM uniqueue.job").await.remove(0);
    assert_eq!(text, format!("inserted job {id}\n"));
    let ran = queues.json(["periodic", "run", odd], 0);
    assert_eq!((&ran["name"], ran["job"].is_string(), &ran["duplicate"]), (&json!(odd), true, &json!(false)));
    let key = "UPDATE uniqueue.periodic SET unique_policy = '{\"key\": \"k\"}' WHERE name = 'daily'";
    queues.execute(key).await;
    let first = queues.json("periodic run daily", 0);
    assert_eq!(first["duplicate"], json!(false));
    let again = queues.json("periodic run daily", 0);
    assert_eq!(again, json!({"name": "daily", "job": first["job"], "duplicate": true}));
    let holder = first["job"].as_str().unwrap();
    assert_eq!(
        queues.text("periodic run daily", 0),
        format!("duplicate, nothing was inserted: the key is held by job {holder}\n")
    );
    assert_eq!(queues.text(["periodic", "pause", odd], 0), format!("periodic job {odd} is paused\n"));
    assert!(queues.text("periodic list", 0).contains("| paused "));
    let resumed = queues.json(["periodic", "resume", odd], 0);
    assert_eq!(resumed, json!({"name": odd, "is": "resumed"}));
    assert_eq!(queues.text(["periodic", "remove", odd], 0), format!("periodic job {odd} is removed\n"));

    for verb in ["run", "pause", "resume", "remove"] {
        assert!(queues.failed(["periodic", verb, odd], 1).starts_with("no such periodic job: "), "{verb}");
    }
}

#[test_support::test]
async fn periodic_jobs_are_added_and_changed(queues: Migrated) {
    let add = ["periodic", "add", "daily", "digest.send", "0 9 * * MON-FRI", "--time-zone", "Europe/Berlin"];
    let text = queues.text((&add, &["--queue", "emails", "--args", r#"{"to": "all"}"#]), 0);
    assert_eq!(text, "periodic job daily is added\n");
    assert!(queues.failed(add, 1).contains("periodic job \"daily\" exists"));
    let set = ["periodic", "set", "daily", "--schedule", "0 22-6 * * FRI-MON", "--catch-up", "skip"];
    let row = queues.json(set, 0);
    let members =
        ["name", "kind", "schedule", "time_zone", "queue", "catch_up", "source"].map(|member| row[member].clone());
    let expected = json!(["daily", "digest.send", "0 22-6 * * FRI-MON", "Europe/Berlin", "emails", "skip", "database"]);
    assert_eq!(json!(members), expected);
    assert_eq!(row["args"], json!({"to": "all"}));
    let expires_in = "SELECT expires_in::text FROM uniqueue.periodic";
    queues.text("periodic set daily --expires-in 90s", 0);
    assert_eq!(queues.texts(expires_in).await, ["00:01:30"]);
    queues.text("periodic set daily --expires-in 0s", 0);
    assert_eq!(queues.texts(expires_in).await, ["00:00:00"]);
    assert!(queues.refused(("periodic set daily --schedule", ["0 25 * * *"])).contains("25"));
    assert!(queues.refused(("periodic add other digest.send", ["every day"])).contains("every day"));
    queues.failed("periodic set unknown --priority 1", 1);
    queues.execute("UPDATE uniqueue.periodic SET source = 'code'").await;
    let output = queues.command("periodic set daily --priority -1").output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("it is defined in code"));
}

#[test_support::test]
async fn backfill_looks_first_then_puts_waiting_jobs_in_groups_and_says_what_is_left(queues: Migrated) {
    let call = "SELECT count(i.id) FROM generate_series(1, 60) AS n,
            uniqueue.insert_job('a', jsonb_build_object('n', n % 50)) AS i";
    queues.execute(call).await;
    let line = ("queue backfill --kind a --group-limit 3 --policy", [r#"{"keys": ["args"]}"#]);
    let grouped = "SELECT count(*)::text FROM uniqueue.job WHERE group_key IS NOT NULL AND group_limit = 3";
    assert_eq!(queues.json((line, "--dry-run"), 0)["grouped"], json!(60));
    assert_eq!(queues.texts(grouped).await, ["0"]);
    let dry = queues.text((line, "--dry-run"), 0);
    assert!(dry.contains("would get a group") && dry.contains("60"), "{dry}");
    let update = "UPDATE uniqueue.job SET state = 'running', worker = gen_random_uuid()
         WHERE id = (SELECT min(id::text)::uuid FROM uniqueue.job)";
    queues.execute(update).await;
    let done = queues.json(line, 1);
    assert_eq!((&done["grouped"], &done["running"], &done["kind"]), (&json!(59), &json!(1), &json!("a")));
    assert_eq!(queues.texts(grouped).await, ["59"]);
    let left = queues.text(line, 1);
    assert!(left.contains("run without it") && left.contains("have it already"), "{left}");
    queues.execute("UPDATE uniqueue.job SET state = 'available' WHERE state = 'running'").await;
    assert_eq!(queues.json(line, 0)["grouped"], json!(1));
    let one = "queue backfill --kind a --group all --in-order";
    assert!(queues.text(one, 1).contains("(--regroup)"));
    queues.text((one, "--regroup --batch 7"), 0);
    let in_order =
        "SELECT count(*)::text FROM uniqueue.job WHERE group_key = 'all' AND in_order AND group_limit IS NULL";
    assert_eq!(queues.texts(in_order).await, ["60"]);
    queues.refuses(&[
        ("queue backfill --kind a", "required"),
        ("queue backfill --kind a --group b --batch 0", "batch"),
        ("queue backfill --kind a --group b --group-limit 2 --in-order", "must be 1 for a job that is in_order"),
        ("queue backfill --kind a --policy {} --group b", "cannot be used with"),
    ]);
    assert!(queues.refused(("queue backfill --kind a --group", [""])).contains("key"));
}
