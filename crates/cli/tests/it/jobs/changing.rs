//! `job cancel`, `retry`, `delete` and `job wait`.

use test_support::prelude::*;

use crate::support::{Migrated, interrupted, printed};

#[test_support::test]
async fn given_jobs_are_changed_and_the_others_have_a_reason(jobs: Migrated) {
    let (waits, done) = (jobs.insert("a"), jobs.insert("a"));
    jobs.set(&done, "state = 'completed', finalized_at = now()").await;
    let gone = "019abc12-3456-7def-8a12-3456789abcde";
    let dry = jobs.json(format!("job cancel --dry-run {waits} {done} {gone}"), 1);
    assert_eq!((&dry["dry_run"], &dry["jobs"]), (&json!(true), &json!({"exactly": 1})));
    assert_eq!((jobs.state(&waits).await, &dry["sample"][0]["id"]), ("available".to_owned(), &json!(waits)));

    assert_eq!(dry["unchanged"][1], json!({"id": gone, "reason": "there is no such job"}));
    let text = jobs.text(format!("job cancel --dry-run {done} {waits}"), 1);
    let said =
        format!("1 job would be cancelled; nothing was changed\nnot {done}: it is completed; cancel changes jobs");
    assert!(text.contains(&said), "{text}");
    jobs.text(format!("job cancel --dry-run {waits}"), 0);

    let answer = jobs.json(format!("job cancel {waits} {done} {gone}"), 1);
    assert_eq!((&answer["verb"], &answer["changed"]), (&json!("cancel"), &json!(1)));
    assert_eq!(answer["unchanged"][0]["id"], json!(done));
    let reason = answer["unchanged"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("it is completed; cancel changes jobs in state pending, scheduled"), "{reason}");
    assert_eq!(answer["unchanged"][1], json!({"id": gone, "reason": "there is no such job"}));
    assert_eq!(jobs.state(&waits).await, "cancelled");

    assert_eq!(jobs.text(format!("job retry {waits} {done}"), 0), "retried 2 jobs\n");
    assert_eq!(jobs.text(format!("job reschedule {waits} --in 1h"), 0), "rescheduled 1 job\n");
    assert_eq!(jobs.state(&waits).await, "scheduled");
    assert_eq!(jobs.text(format!("job reschedule {waits} --at now"), 0), "rescheduled 1 job\n");
    assert_eq!(jobs.state(&waits).await, "available");
    let text = jobs.text(format!("job priority -5 {waits}"), 0);
    assert_eq!(text, "changed the priority of 1 job\n");
    assert_eq!(jobs.texts("SELECT priority::text FROM uniqueue.job ORDER BY id").await, ["-5", "0"]);
    let held = jobs.insert("a --pending");
    assert_eq!(jobs.text(format!("job release {held}"), 0), "released 1 job\n");
    assert_eq!(jobs.state(&held).await, "available");
    let text = jobs.text(format!("job release {held}"), 1);
    assert_eq!(text, format!("released 0 jobs\nnot {held}: it is available; release changes jobs in state pending\n"));
    let mut delete = jobs.command(format!("job delete {held} {waits} {done}"));
    assert_eq!(printed(delete.env("UNIQUEUE_ACTOR", "ada"), 0), "deleted 3 jobs\n");
    let logged = "SELECT string_agg(verb, ' ' ORDER BY id) FILTER (WHERE actor <> 'ada' OR verb = 'delete') FROM uniqueue.change_log";
    let changes = "cancel retry reschedule reschedule set_priority release delete";
    assert_eq!(jobs.texts(logged).await, [changes]);
    assert_eq!(jobs.texts("SELECT count(*)::text FROM uniqueue.job").await, ["0"]);
}

#[test_support::test]
async fn retry_of_a_graph_says_what_it_does_and_resumes_it(jobs: Migrated) {
    let graph = r#"SELECT id::text FROM uniqueue.insert_jobs('[
        {"kind": "first"}, {"kind": "second", "after": [0]}, {"kind": "third", "after": [1]}
    ]') ORDER BY index"#;
    let ids = jobs.texts(graph).await;
    jobs.set(&ids[0], "state = 'completed', finalized_at = now()").await;
    jobs.set(&ids[1], "state = 'discarded', finalized_at = now()").await;
    jobs.texts("SELECT cancelled::text FROM uniqueue._release_step(100, NULL, NULL, NULL)").await;
    let last = &ids[2];
    let said = jobs.text(format!("job retry --graph --dry-run {last}"), 0);
    let expected =
        format!("2 jobs would be retried with --graph {last} (1 at once, 1 after their parents); nothing was changed");
    assert!(said.contains(&expected), "{said}");
    let answer = jobs.json(format!("job retry --graph --yes {last}"), 0);
    assert_eq!(answer, json!({"verb": "retry", "changed": 2, "discarded": [], "unchanged": []}));
    let states = "SELECT string_agg(kind || ' ' || state, ', ' ORDER BY kind) FROM uniqueue.job";
    assert_eq!(jobs.texts(states).await, ["first completed, second available, third pending"]);
}

#[test_support::test]
async fn cancel_of_a_graph_counts_asks_and_cancels_all_that_runs_after_the_given_jobs(jobs: Migrated) {
    let graph = r#"SELECT id::text FROM uniqueue.insert_jobs('[
        {"kind": "first"}, {"kind": "second", "after": [0]}, {"kind": "third", "after_final": [1]}, {"kind": "other"}
    ]') ORDER BY index"#;
    let ids = jobs.texts(graph).await;
    let first = &ids[0];
    let gone = "019abc12-3456-7def-8a12-3456789abcde";
    let stderr = jobs.refused(format!("job cancel --graph {first}"));
    let said = format!("cancel of 3 jobs in schema uniqueue with --graph {first} needs confirmation");
    assert!(stderr.contains(&said), "{stderr}");
    assert!(jobs.refused("job cancel --graph --queue q").contains("--graph"), "a filter has no graph");
    let dry = jobs.json(format!("job cancel --graph --dry-run {first} {gone}"), 1);
    assert_eq!((&dry["jobs"], &dry["unchanged"][0]["id"]), (&json!({"exactly": 3}), &json!(gone)));
    assert_eq!(jobs.texts("SELECT count(*)::text FROM uniqueue.job WHERE state = 'cancelled'").await, ["0"]);

    // The first job is final, and the graph behind it goes on.
    jobs.set(first, "state = 'completed', finalized_at = now()").await;
    let answer = jobs.json(format!("job cancel --graph --yes {first}"), 0);
    assert_eq!(answer, json!({"verb": "cancel", "changed": 2, "discarded": [], "unchanged": []}));
    let states = "SELECT string_agg(kind || ' ' || state, ', ' ORDER BY kind) FROM uniqueue.job";
    let expected = "first completed, other available, second cancelled, third cancelled";
    assert_eq!(jobs.texts(states).await, [expected]);
    assert_eq!(jobs.text(format!("job cancel --graph --yes {first}"), 0), "cancelled 0 jobs\n");
}

#[test_support::test]
async fn jobs_that_a_retry_discards_are_not_counted_as_retried(jobs: Migrated) {
    let policy = r#"{"on_reentry": "discard", "states": ["available"]}"#;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(jobs.insert(("sync --in 1h --policy", [policy])));
    }
    // It holds the key that all of them had.
    jobs.text(("job insert sync --policy", &[policy]), 0);
    let other = jobs.insert("other");
    jobs.set(&other, "state = 'cancelled', finalized_at = now()").await;
    let text = jobs.text(format!("job retry {} {other}", ids[0]), 1);
    let discarded = format!("discarded 1 job, because another job holds the unique key: {}\n", ids[0]);
    assert_eq!(text, format!("retried 1 job\n{discarded}"));
    let mut answer = jobs.json("job retry --state scheduled --kind sync --yes", 1);
    // The jobs of a batch have no order.
    answer["discarded"].as_array_mut().unwrap().sort_by_key(|id| id.to_string());
    assert_eq!(answer, json!({"verb": "retry", "changed": 0, "discarded": ids[1..], "unchanged": []}));
    assert_eq!(jobs.state(&ids[2]).await, "discarded");
}

#[test_support::test]
async fn final_jobs_whose_retry_is_refused_are_named_with_the_holder_of_their_key(jobs: Migrated) {
    let policy = r#"{"on_reentry": "discard"}"#;
    let insert = || jobs.insert(("sync --policy", [policy]));
    let mut ids = Vec::new();
    for state in ["completed", "cancelled", "discarded"] {
        ids.push(insert());
        jobs.set(ids.last().unwrap(), &format!("state = '{state}', finalized_at = now()")).await;
    }
    let holder = insert();
    let reason = format!("its unique key is held by job {holder}, and its policy is on_reentry discard");
    for (id, state) in ids.iter().zip(["completed", "cancelled", "discarded"]) {
        let text = jobs.text(format!("job retry {id}"), 1);
        assert_eq!(text, format!("retried 0 jobs\nnot {id}: {reason}\n"));
        let answer = jobs.json(format!("job retry --state {state} --yes"), 1);
        let unchanged = json!([{"id": id, "reason": reason}]);
        assert_eq!(answer, json!({"verb": "retry", "changed": 0, "discarded": [], "unchanged": unchanged}));
        assert_eq!(jobs.state(id).await, state);
    }
}

#[test_support::test]
async fn many_jobs_are_counted_and_shown_before_they_are_changed(jobs: Migrated) {
    jobs.execute("INSERT INTO uniqueue.job (id, kind, queue, state, finalized_at)
         SELECT uniqueue.new_job_id(), 'bulk', 'q' || n % 2, s::uniqueue.job_state,
             CASE WHEN s IN ('completed', 'discarded', 'cancelled') THEN now() END
         FROM unnest(ARRAY['available', 'completed', 'discarded', 'retryable', 'cancelled']) AS s, generate_series(1, 1000) AS n",
    )
    .await;
    let states = async || {
        let sql = "SELECT state || ' ' || count(*) FROM uniqueue.job GROUP BY state ORDER BY state::text";
        jobs.texts(sql).await
    };
    let before = states().await;

    // Without a state it selects failed jobs.
    let dry = jobs.json("job retry --kind bulk --dry-run", 0);
    assert_eq!((&dry["jobs"], dry["sample"].as_array().unwrap().len()), (&json!({"exactly": 2000}), 5));
    let text = jobs.text("job retry --kind bulk --dry-run", 0);
    assert!(text.ends_with("(5 rows)\n2,000 jobs would be retried; nothing was changed\n"), "{text}");
    let stderr = jobs.refused("job retry --kind bulk");
    assert_eq!(
        stderr,
        "error: retry of 2,000 jobs in schema uniqueue with --state retryable,discarded --kind bulk needs confirmation, and there is \
         no terminal\nhint: check with --dry-run, then give --yes\n"
    );
    assert_eq!(states().await, before);

    // Limits take the oldest.
    let some = jobs.json("job retry --state discarded --limit 3 --yes", 0);
    assert_eq!(some, json!({"verb": "retry", "changed": 3, "discarded": [], "unchanged": []}));
    assert_eq!(jobs.text("job retry --kind bulk --yes", 0), "retried 1,997 jobs\n");
    assert_eq!(states().await, ["available 3000", "cancelled 1000", "completed 1000"]);
    assert_eq!(jobs.text("job retry --kind bulk --yes", 0), "retried 0 jobs\n");
    assert_eq!(jobs.text("job priority 3 --queue q1 --yes", 0), "changed the priority of 1,500 jobs\n");
    assert_eq!(jobs.text("job cancel --priority 3 -y", 0), "cancelled 1,500 jobs\n");
    assert_eq!(jobs.text("job delete --state completed --yes", 0), "deleted 1,000 jobs\n");
    assert_eq!(jobs.text("job delete --all --yes", 0), "deleted 4,000 jobs\n");

    jobs.refuses(&[
        ("job cancel", "error: no jobs given to cancel\nhint: give ids, or a filter such as"),
        ("job delete --yes", "error: no jobs given to delete\nhint: "),
        ("job delete --limit 5 --yes", "error: no jobs given to delete\nhint: "),
        ("job retry --all 019abc12-3456-7def-8a12-3456789abcde", "error: the argument '--all' cannot be used with"),
        ("job retry --kind a 019abc12-3456-7def-8a12-3456789abcde", "error: ids and a filter at once\nhint: "),
        (
            "job cancel --state completed --yes",
            "error: cancel does not change jobs in state completed\nhint: it changes jobs in state",
        ),
        ("job delete --state running --yes", "error: delete does not change jobs in state running\nhint: "),
        ("job reschedule --queue q", "error: the following required arguments were not provided"),
        ("job reschedule --queue q --in 1h --at now", "error: the argument '--in <DURATION>' cannot be used with"),
        ("job priority high --queue q", "error: invalid value 'high' for '<PRIORITY>'"),
    ]);
}

#[test_support::test]
async fn interrupted_list_ends_its_query(jobs: Migrated) {
    // The query never ends, because another transaction has locked the table.
    let _holder = jobs.session("BEGIN; LOCK TABLE uniqueue.job").await;
    let child = jobs.command("job list").stderr(Stdio::piped()).spawn().unwrap();
    let waiting = "SELECT count(*)::text FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'uniqueue'";
    let until = async |count: &str| {
        eventually!(jobs.texts(waiting).await == [count], "{count} queries wait");
    };
    until("1").await;
    assert_eq!(interrupted(child, "TERM"), "error: interrupted: nothing was changed\n");
    until("0").await;
}

#[test_support::test]
async fn interrupted_change_keeps_and_counts_its_batches(jobs: Migrated) {
    jobs.execute(
        "INSERT INTO uniqueue.job (id, kind) SELECT uniqueue.new_job_id(), 'bulk' FROM generate_series(1, 2500);
         -- Another transaction has locked a job of the third batch.
         CREATE TABLE held AS SELECT id FROM uniqueue.job ORDER BY id OFFSET 2200 LIMIT 1",
    )
    .await;
    let holder = jobs.session("BEGIN; SELECT FROM uniqueue.job WHERE id = (SELECT id FROM held) FOR UPDATE").await;
    let child =
        jobs.command("job cancel --kind bulk --yes").stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let cancelled = "SELECT count(*)::text FROM uniqueue.job WHERE state = 'cancelled'";
    eventually!(jobs.texts(cancelled).await == ["2499"], "all others go through");
    let said = "error: interrupted: cancelled 2,499 jobs before; the same command changes the rest\n";
    assert_eq!(interrupted(child, "INT"), said);
    holder.close().await.unwrap();
    assert!(jobs.text("job cancel --kind bulk --yes", 0).starts_with("cancelled "));
    assert_eq!(jobs.texts("SELECT DISTINCT state::text FROM uniqueue.job").await, ["cancelled"]);
}

#[test_support::test]
async fn wait_prints_the_result_and_its_exit_code_says_whether_the_job_completed(jobs: Migrated) {
    let id = jobs.insert("report.build --pending");
    let timed_out = jobs.text(format!("job wait {id} --timeout 50ms"), 1);
    assert_eq!(timed_out, format!("job {id} is not final yet: the time was over\n"));
    jobs.set(&id, "state = 'completed', finalized_at = now(), output = '{\"rows\": 7}'").await;
    let completed = jobs.text(format!("job wait {id}"), 0);
    assert_eq!(completed, format!("job {id} completed: {{\"rows\":7}}\n"));
    let json = jobs.json(format!("job wait {id}"), 0);
    assert_eq!((&json["waited"], &json["job"]["output"]), (&json!("final"), &json!({"rows": 7})));

    let error = r#"[{"attempt": 1, "at": "2026-01-01T00:00:00Z", "error": "no paper"}]"#;
    jobs.set(&id, &format!("state = 'discarded', output = NULL, errors = '{error}'")).await;
    let discarded = jobs.text(format!("job wait {id}"), 1);
    assert_eq!(discarded, format!("job {id} was discarded: no paper\n"));
    jobs.execute(&format!("DELETE FROM uniqueue.job WHERE id = '{id}'")).await;
    let gone = jobs.text(format!("job wait {id}"), 1);
    assert_eq!(gone, format!("job {id} does not exist: it was deleted, or never inserted\n"));

    let inserted = jobs.json("job insert report.build --wait 50ms", 1);
    assert_eq!((&inserted["waited"], &inserted["result"]), (&json!("timed_out"), &Value::Null));
    // A job that completes meanwhile.
    for (words, began) in [("", "inserted "), ("--json", "{")] {
        let line = format!("job insert report.print --key print --wait 30s {words}");
        let waiting = jobs.command(line).stdout(Stdio::piped()).spawn().unwrap();
        let print = "SELECT id::text FROM uniqueue.job WHERE kind = 'report.print' AND state = 'available'";
        let mut ids = Vec::new();
        while ids.is_empty() {
            ids = jobs.texts(print).await;
        }
        jobs.set(&ids[0], "state = 'completed', finalized_at = now(), output = '7'").await;
        let output = waiting.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.starts_with(began), "{text}");
        if words.is_empty() {
            assert!(text.ends_with(&format!("job {} completed: 7\n", ids[0])), "{text}");
        } else {
            let json: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&json["waited"], &json["result"]["output"]), (&json!("final"), &json!(7)), "{text}");
        }
    }
    jobs.text("queue retention default --completed 0s", 0);
    let message = jobs.refused("job insert report.build --wait 1s");
    assert!(message.contains("queue default deletes jobs as they complete"), "{message}");
}
