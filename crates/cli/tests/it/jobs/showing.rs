//! `job show`.

use test_support::prelude::*;

use crate::support::Migrated;

#[test_support::test]
async fn the_first_digits_of_an_id_name_a_job(jobs: Migrated) {
    let one = "019abc12-3456-7def-8a12-3456789abcde";
    for id in [one, "019abc12-3456-7def-9000-000000000000", "019abc13-0000-7000-8000-000000000000"] {
        jobs.text(format!("job insert a --id {id}"), 0);
    }
    for digits in [&one[..20], "019abc13", "019ABC13-0000", "019abc12-3456-7def-9000-000000000000"] {
        let shown = jobs.text(format!("job show {digits}"), 0);
        assert!(shown.contains(&format!("| {}", digits.to_lowercase())), "{digits}: {shown}");
    }
    for (digits, said) in [
        (
            "019abc12-3456",
            "several jobs begin with 019abc123456:\n  019abc12-3456-7def-8a12-3456789abcde\n  019abc12-3456-7def-9000-000000000000\n",
        ),
        ("019abc12-3456-7def-8b", "no such job: 019abc1234567def8b\n"),
        ("ffff", "no such job: ffff\n"),
        ("0000", "no such job: 0000\n"),
    ] {
        assert_eq!(jobs.failed(format!("job show {digits}"), 1), said);
    }
    // A change takes whole ids.
    assert!(jobs.refused("job cancel 019abc13").contains("019abc13"));
}

#[test_support::test]
async fn the_group_of_a_job_is_shown_with_what_holds_it_up(jobs: Migrated) {
    let list = || jobs.text("job list", 0);
    jobs.insert("alone");
    assert!(!list().contains("group"));
    let first = jobs.insert("first --group customer:1 --in-order --key k");
    let second = jobs.insert("second --group customer:1 --group-limit 3");
    let text = list();
    assert_eq!(text.matches("customer:1").count(), 2, "{text}");
    let show = |id: &str| jobs.text(format!("job show {id}"), 0);
    let text = show(&first);
    assert!(text.contains("group        | customer:1, in order\n"), "{text}");
    assert!(text.contains("in the group | 0 of 1 running, 2 available; this job is the first\n"), "{text}");
    jobs.set(&first, "state = 'running', attempt = 1, began = 1, worker = id, attempted_at = now()").await;
    let text = show(&second);
    assert!(text.contains("group        | customer:1, at most 3 at once\n"), "{text}");
    assert!(text.contains("in the group | 1 of 3 running, 1 available; this job is the first\n"), "{text}");
    jobs.set(&first, "state = 'retryable'").await;
    let held = format!("  Group \"customer:1\" waits for job {first}, which began and is retryable until ");
    assert!(show(&second).contains(&held), "{}", show(&second));
    let text = jobs.text("unique explain first --key k", 1);
    assert!(text.contains("customer:1, in order\n") && text.contains("why it waits"), "{text}");
}

#[test_support::test]
async fn why_a_job_waits_is_shown_and_listed(jobs: Migrated) {
    let id = jobs.insert("waits --queue emails");
    let why = "No live runner works queue \"emails\".";
    let text = jobs.text(format!("job show {id}"), 0);
    let part = format!("\nwhy it waits\n  {why}\n    Start a runner that works queue \"emails\".\n");
    assert!(text.contains(&part), "{text}");
    assert!(jobs.text("job list --why", 0).contains(why));
    assert!(!jobs.text("job list", 0).contains(why));
    let shown = jobs.json(format!("job show {id}"), 0);
    assert_eq!((&shown["why"][0]["code"], &shown["id"]), (&"queue_unworked".into(), &id.as_str().into()));
    let listed = jobs.json("job list --why", 0);
    assert_eq!(listed["why"]["reason"], why);
    jobs.set(&id, "state = 'completed', finalized_at = now()").await;
    let text = jobs.text(format!("job show {id}"), 0);
    assert!(!text.contains("why it waits"), "{text}");
}

#[test_support::test]
async fn show_prints_everything_about_a_job(jobs: Migrated) {
    let holder = jobs.insert("holds --key k --queue emails");
    let text = jobs.text(format!("job show {holder}"), 0);
    assert!(!text.contains("updated"), "{text}");
    for part in [
        "kind       | holds",
        "queue      | emails",
        "state      | available, waits ",
        "attempt    | 0 of 25",
        "unique key | k",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("claim      | claimed; free when it is completed, cancelled or discarded\n"), "{text}");
    assert!(text.contains("\nargs\n  {}\n") && text.contains(" | inserted\n"), "{text}");

    let failed = jobs.insert("fails");
    jobs.set(
        &failed,
        r#"state = 'discarded', finalized_at = now() - interval '1 minute', attempted_at = now() - interval '2 minutes',
           updates = 2, updated_at = now() - interval '3 minutes', updated_by = '019abc12-3456-7def-8a12-3456789abcdf',
           attempt = 3, max_attempts = 3, unique_key = 'k', unique_states = 1, args = '{"deep": {"n": 1.50}}',
           progress = '{"done": 3}', output = '[1]', meta = '{"tenant": 7}',
           errors = '[{"attempt": 1, "at": "2026-01-01T00:00:00Z", "error": "smoke\u001b[31m"},
                      {"attempt": 2, "at": "2026-01-02T00:00:00Z", "error": "fire"},
                      {"attempt": 3, "at": "2026-01-03T00:00:00Z", "error": "ashes:\r\n\n  cold\u001b[0m"}]'"#,
    )
    .await;
    let text = jobs.text(format!("job show {failed}"), 0);
    for part in [
        "state      | discarded, 1m ago",
        &format!("claim      | none; job {holder} (available) holds the key\n"),
        "progress   | {\"done\":3}",
        "\nargs\n  {\n    \"deep\": {\n      \"n\": 1.50\n    }\n  }\n",
        "\nmeta\n  {\n    \"tenant\": 7\n  }\n",
        "\noutput\n  [\n    1\n  ]\n",
        r"attempt 1 failed: smoke\u{1b}[31m",
        "attempt 2 failed: fire",
        "attempt 3 failed: ashes: …\n",
        "attempt 3 started",
        "updated    | 2 times, last ",
        "updated by | the insert with id 019abc12-3456-7def-8a12-3456789abcdf",
        "updated by a duplicate, the last of 2 updates\n",
        " | discarded\n",
        "\n\nerror of attempt 3, 2026-01-03T00:00:00Z\n  ashes:\n  \n    cold\\u{1b}[0m\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("error of attempt 2"), "an error that the history shows in full is not repeated: {text}");
    let shown = jobs.json(format!("job show {failed}"), 0);
    assert_eq!((&shown["errors"][1]["error"], &shown["id"]), (&json!("fire"), &json!(failed)));

    let gone = "019abc12-3456-7def-8a12-3456789abcde";
    let output = jobs.command(format!("job show --json {failed} {gone} {holder}")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("no such job: {gone}\n"));
    assert!(jobs.refused("job show").contains("<ID>..."));
}
