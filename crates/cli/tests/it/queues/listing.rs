//! `queue list` and `queue groups`.

use test_support::prelude::*;

use crate::support::{Migrated, printed};

#[test_support::test]
async fn queues_are_listed_with_their_jobs(queues: Migrated) {
    let odd = "'; DROP TABLE uniqueue.queue; -- é";
    assert!(queues.text(["job", "insert", "a", "--queue", odd], 0).starts_with("inserted "));
    queues.text("job insert a --queue busy --in 1h", 0);
    let insert = "INSERT INTO uniqueue.job (id, kind, queue, created_at, scheduled_at)
         SELECT uniqueue.new_job_id(), 'a', 'deep', at, at
         FROM generate_series(1, 150), LATERAL (SELECT now() - interval '5 minutes' AS at) AS t";
    queues.execute(insert).await;
    let all = queues.lines("queue list --count-up-to 100");
    let names: Vec<_> = all.iter().map(|queue| queue["name"].as_str().unwrap()).collect();
    assert_eq!(names, [odd, "busy", "deep"]);
    assert_eq!((&all[2]["available"], &all[1]["scheduled"]), (&json!({"about": 150}), &json!({"exactly": 1})));
    let text = queues.text("queue list --count-up-to 100", 0);
    let deep = text.lines().find(|line| line.contains("deep")).unwrap();
    assert!(deep.contains("no runner") && deep.contains("~150") && deep.contains("5m"), "{text}");
    assert!(text.ends_with("(3 rows)\n"), "{text}");

    let one = queues.lines("queue list deep");
    assert_eq!((one.len(), &one[0]["available"]), (1, &json!({"exactly": 150})));
    let output = queues.command("queue list deep nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "no such queue: \"nowhere\"\n");
}

#[test_support::test]
async fn a_list_shows_group_limits_and_fairness_within_80_columns(queues: Migrated) {
    queues.text("queue limit plain 4", 0);
    assert!(!queues.text("queue list", 0).contains("groups"));
    queues.text(["queue", "limit", "a long name of a queue with emails", "12", "--per-group", "--fair", "yes"], 0);
    queues.text("queue limit fair --fair yes", 0);
    let text = printed(queues.command("queue list").env("COLUMNS", "80"), 0);
    let cell = |name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        line.split('|').nth(2).unwrap_or_else(|| panic!("{text}")).trim().to_owned()
    };
    assert_eq!([cell("queue"), cell("a long"), cell("fair"), cell("plain")], ["groups", "12, fair", "fair", ""]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test_support::test]
async fn groups_are_listed_with_those_held_up_first_or_by_name(queues: Migrated) {
    let sql = "
        INSERT INTO uniqueue.job (id, kind, queue, group_key)
        SELECT uniqueue.new_job_id(), 'a', 'emails', g FROM unnest('{d, b, c, a}'::text[]) AS g;
        SELECT uniqueue.set_queue('emails', '{\"group_limit\": 1}');
        UPDATE uniqueue.job SET state = 'running', attempt = 1, worker = gen_random_uuid() WHERE group_key = 'c';
        INSERT INTO uniqueue.job (id, kind, queue, group_key) VALUES (uniqueue.new_job_id(), 'a', 'emails', 'c')";
    queues.execute(sql).await;
    let groups = |options: &str| {
        let groups = queues.lines(("queue groups", options));
        groups.iter().map(|group| group["group"].as_str().unwrap()).collect::<String>()
    };
    assert_eq!(groups("")[..1], *"c");
    assert_eq!(groups("--by-name"), "abcd");
    assert_eq!(groups("emails --by-name --limit 2"), "ab");
    assert_eq!(groups("none --by-name"), "");
}
