//! `queue set`, `pause`, `hold`, `remove` and `stats`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use test_support::prelude::*;
use test_support::process::signal;

use crate::support::Migrated;

#[test_support::test]
async fn queues_are_paused_limited_and_keep_their_jobs(queues: Migrated) {
    let odd = "it's \"odd\"; --";
    let text = queues.text(["queue", "pause", odd, "emails"], 0);
    let expected = format!(
        "queue {odd} is paused; running jobs are finished\nqueue emails is paused; running jobs are finished\n"
    );
    assert_eq!(text, expected);
    let paused = queues.lines("queue pause emails");
    assert!(paused[0]["paused_at"].is_string() && paused[0]["changed"] == json!(false), "{paused:?}");
    let text = queues.text("queue pause emails", 0);
    assert!(text.starts_with("queue emails was paused already, since 20"), "{text}");
    let why = ["queue", "pause", "emails", "--reason", "the provider is down"];
    assert!(queues.command(why).env("UNIQUEUE_ACTOR", "ada").status().unwrap().success());
    let text = queues.text("queue list", 0);
    assert!(text.lines().filter(|line| line.contains("| paused ")).count() == 2, "{text}");
    assert!(text.contains("| ben: the provider is down"), "{text}");
    let log = "SELECT DISTINCT actor || ' ' || verb || ' ' || (subject ->> 'queue') FROM uniqueue.change_log WHERE subject ->> 'queue' = 'emails'";
    assert_eq!(queues.texts(log).await.len(), 2, "a pause by ben, and one by ada");
    assert_eq!(queues.text(["queue", "resume", odd], 0), format!("queue {odd} is resumed\n"));
    assert_eq!(queues.text(["queue", "resume", odd], 0), format!("queue {odd} was not paused\n"));
    let resumed = queues.lines("queue resume emails");
    assert_eq!((&resumed[0]["name"], &resumed[0]["paused_at"]), (&json!("emails"), &json!(null)));
    assert_eq!(resumed[0]["changed"], json!(true));
    assert_eq!(queues.lines("queue resume emails")[0]["changed"], json!(false));

    assert_eq!(queues.text("queue limit emails 5", 0), "queue emails runs up to 5 jobs at once, over all runners\n");
    assert_eq!(queues.lines("queue limit emails 7")[0]["limit"], json!(7));
    assert_eq!(queues.text("queue limit emails none", 0), "queue emails has no limit but the runners' own\n");

    let said = "queue emails takes inserts until 1,000 jobs wait\n";
    assert_eq!(queues.text("queue max-waiting emails 1000", 0), said);
    assert_eq!(queues.lines("queue list emails")[0]["max_waiting"], json!(1000));
    assert_eq!(queues.lines("queue max-waiting emails 1")[0]["max_waiting"], json!(1));
    queues.text("job insert a --queue emails", 0);
    let full = queues.refused("job insert a --queue emails");
    assert!(full.starts_with("error: queue emails is full: at most 1 of its jobs may wait"), "{full}");
    let said = "queue emails takes inserts however many jobs wait\n";
    assert_eq!(queues.text("queue max-waiting emails none", 0), said);
    assert_eq!(queues.lines("queue list emails")[0]["max_waiting"], json!(null));

    let kept = "SELECT concat_ws(' ', keep_completed, keep_cancelled, keep_discarded) FROM uniqueue.queue WHERE name = 'emails'";
    let retention = |more: &str| queues.text(("queue retention emails", more), 0);
    assert_eq!(
        retention("--completed 1h --discarded forever"),
        "queue emails keeps completed jobs 1h, cancelled ones as the runners are configured, discarded ones forever\n"
    );
    assert_eq!(queues.texts(kept).await, ["01:00:00 1000 years"]);
    // The command leaves the retention of discarded jobs as it was, and `queue list` shows it.
    retention("--completed 0s --cancelled 2d");
    assert_eq!(queues.texts(kept).await, ["00:00:00 48:00:00 1000 years"]);
    assert_eq!(
        retention("--cancelled runners"),
        "queue emails keeps completed jobs 0s, cancelled ones as the runners are configured, discarded ones forever\n"
    );
    for line in ["queue retention emails", "queue list emails"] {
        let settings = &queues.lines(line)[0];
        let kept = ["keep_completed", "keep_cancelled", "keep_discarded"].map(|name| settings[name].clone());
        assert_eq!(kept, [json!(0.0), json!(null), json!("forever")], "{line}");
    }
    let said = "queue emails keeps its final jobs as the runners are configured\n";
    assert_eq!(retention("--as-runners-say"), said);
    assert_eq!(queues.texts(kept).await, [""]);

    queues.refuses(&[
        ("queue limit emails 0", "error: invalid limit: must be 1 to 2147483647; to run nothing, pause the queue: 0"),
        (
            "queue max-waiting emails 0",
            "error: invalid max_waiting: must be 1 to 2147483647; for no limit give null: 0",
        ),
        ("queue limit emails few", "error: invalid value 'few' for '[N]': expected a number, or none"),
        ("queue pause", "error: the following required arguments were not provided"),
        ("queue retention emails --completed long", "error: invalid value 'long' for '--completed <DURATION>'"),
    ]);
    assert!(queues.refused(["queue", "pause", ""]).starts_with("error: invalid queue: must not be empty: \"\""));
}

#[test_support::test]
async fn queues_and_their_groups_get_rates_and_are_held(queues: Migrated) {
    let rate = |more: &str| queues.text(("queue rate emails", more), 0);
    assert_eq!(rate("10/1s"), "queue emails starts jobs at a rate of 10/1s, over all runners\n");
    assert_eq!(
        rate("100/1h --burst 5 --per-group"),
        "queue emails starts jobs of each group at a rate of 100/1h, burst 5, over all runners\n"
    );
    let settings = &queues.lines("queue list emails")[0];
    assert_eq!(settings["rate"], json!({"count": 10, "period": 1.0, "burst": 10}));
    assert_eq!(settings["group_rate"], json!({"count": 100, "period": 3600.0, "burst": 5}));
    let text = queues.text("queue list", 0);
    assert!(text.contains("10/1s; 100/1h, burst 5 per group"), "{text}");
    assert_eq!(rate("none"), "queue emails starts jobs at any rate\n");
    assert_eq!(rate("none --per-group"), "queue emails starts jobs of each group at any rate\n");

    let text = queues.text("queue hold emails 10m", 0);
    assert!(
        text.starts_with("queue emails is held until 20") && text.ends_with("; running jobs are finished\n"),
        "{text}"
    );
    let text = queues.text("queue list", 0);
    assert!(text.contains("| held, ends in "), "{text}");
    assert_eq!(queues.text("queue resume emails", 0), "queue emails is resumed\n");
    assert_eq!(queues.text("queue resume emails", 0), "queue emails was not paused\n");
    queues.text("job insert a --queue emails --group customer:1", 0);
    assert_eq!(
        queues.text("queue hold emails 1h30m --group customer:1", 0),
        "group customer:1 of queue emails is held for 1h30m\n"
    );
    let text = queues.text("queue groups emails", 0);
    assert!(text.contains("is held until 20") && text.contains("in 1h "), "{text}");
    let resume = "queue resume emails --group customer:1";
    assert_eq!(queues.text(resume, 0), "group customer:1 of queue emails is resumed\n");
    assert_eq!(queues.text(resume, 0), "group customer:1 of queue emails was not held\n");

    queues.refuses(&[
        (
            "queue rate emails 0/1s",
            "error: invalid rate: count must be 1 to 1000000; to run nothing, pause the queue: 0",
        ),
        ("queue rate emails 1/0", "error: invalid rate: period must be 1 ms to 31 days: 0.0"),
        ("queue rate emails 1/1s --burst 0", "error: invalid rate: burst must be 1 to 1000000: 0"),
        ("queue rate emails fast", "error: invalid value 'fast' for '<COUNT/PERIOD>'"),
        ("queue hold emails long", "error: invalid value 'long' for '<DURATION>'"),
    ]);
    let stderr = queues.refused(("queue hold emails 1h --group", [""]));
    assert!(stderr.starts_with("error: invalid group: must be 1 to 512 bytes: 0"), "{stderr}");
}

#[test_support::test]
async fn a_queue_without_runner_and_jobs_is_set_with_a_note(queues: Migrated) {
    queues.text("job insert a --queue emails", 0);
    let runner = "INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups)
        VALUES (gen_random_uuid(), 'r', '{reports}', now() + interval '1 h', true)";
    queues.execute(runner).await;
    for (line, has_note) in [
        ("queue pause emials", true),
        ("queue pause emials", false),
        ("queue limit it's 5 --json", true),
        ("queue retention reprots", false),
        ("queue retention reprots --completed 1h", true),
        ("queue resume nowhere", false),
        ("queue pause emails", false),
        ("queue limit reports 5", false),
        ("queue max-waiting emial 5", true),
        ("queue max-waiting emial none", false),
    ] {
        let output = queues.command(line).output().unwrap();
        let name = line.split(' ').nth(2).unwrap();
        let note = format!("note: this queue has no live runner and no recent job; is its name right? {name:?}\n");
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(0), false), "{line}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), if has_note { &note } else { "" }, "{line}");
    }
    assert_eq!(queues.texts("SELECT name FROM uniqueue.queue WHERE name = 'nowhere'").await, [""; 0]);
}

#[test_support::test]
async fn the_settings_of_a_mistyped_queue_are_removed_and_those_of_a_used_one_stay(queues: Migrated) {
    let names = "SELECT name FROM uniqueue.queue ORDER BY name";
    queues.text("queue pause emials emails busy done", 0);
    // An empty row stays after a resume, and can be removed as well.
    queues.text("queue resume done", 0);
    queues.text("job insert a --queue emails", 0);
    let runner = "INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups)
        VALUES (gen_random_uuid(), 'r', '{busy}', now() + interval '1 h', true);
        INSERT INTO uniqueue.job (id, kind, queue, state, finalized_at)
        VALUES (uniqueue.new_job_id(), 'a', 'done', 'completed', now())";
    queues.execute(runner).await;
    assert_eq!(
        queues.text("queue remove emials emails busy done nowhere", 1),
        "removed the settings of queue emials\n\
         queue emails is left as it is: it has unfinished jobs\n\
         queue busy is left as it is: a live runner works it\n\
         removed the settings of queue done\n\
         queue nowhere is left as it is: it has no settings\n"
    );
    assert_eq!(queues.texts(names).await, ["busy", "emails"]);
    queues.execute("DELETE FROM uniqueue.job; DELETE FROM uniqueue.runner").await;
    let removed = queues.lines("queue remove emails busy");
    assert_eq!(removed[0], json!({"name": "emails", "removed": true, "reason": null}));
    assert_eq!(queues.texts(names).await, [""; 0]);
    assert!(queues.refused(["queue", "remove", ""]).starts_with("error: invalid queue: must not be empty"));
}

#[test_support::test]
async fn stats_are_printed_once_or_line_by_line(queues: Migrated) {
    let insert = "INSERT INTO uniqueue.job (id, kind, state, created_at, scheduled_at, attempted_at, finalized_at)
         SELECT uniqueue.new_job_id(), 'a', 'completed', at, at, at + interval '30 s', at + interval '32 s'
         FROM generate_series(1, 12), LATERAL (SELECT now() - interval '40 s' AS at) AS t;
         INSERT INTO uniqueue.job (id, kind) SELECT uniqueue.new_job_id(), 'a' FROM generate_series(1, 1200)";
    queues.execute(insert).await;
    let text = queues.text("stats", 0);
    for part in [
        "available | 1,200",
        "completed |    12",
        "runners          | 0",
        "inserted         | 20.2/s over 1m",
        "completed        | unknown: no live runner has reported",
        "a sample of 12 jobs",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let waited = text.lines().find(|line| line.contains("waited")).unwrap();
    assert!(waited.matches("30s").count() == 4, "{text}");
    let stats = queues.json("stats --within 10m --sample 5", 0);
    assert_eq!((&stats["jobs"]["available"], &stats["rates"]["inserted"]), (&json!({"exactly": 1200}), &json!(2.02)));
    assert_eq!((&stats["finished"]["jobs"], &stats["finished"]["run"]["p99"]), (&json!(5), &json!(2.0)));
    assert_eq!((&stats["rates"]["completed"], &stats["oldest_available_age"].is_f64()), (&Value::Null, &true));

    // It ends when standard output is closed, which is no error.
    for (words, lines) in [("stats --watch 0.05", 3), ("stats --watch 50ms --json", 2)] {
        let mut child = queues.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let reader = BufReader::new(child.stdout.take().unwrap());
        // The reader is gone after these.
        let told: Vec<_> = reader.lines().take(lines).map(Result::unwrap).collect();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
        if lines == 3 {
            assert!(
                told[0].contains("available") && told[1].contains("1,200") && told[1].len() == told[2].len(),
                "{told:?}"
            );
        } else {
            assert!(told.iter().all(|line| serde_json::from_str::<Value>(line).unwrap()["jobs"].is_object()));
        }
    }
    let mut child = queues.command("stats --watch 1").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    signal(child.id(), "INT");
    // An interrupt is the usual end.
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    for option in ["--watch 0", "--watch 0.0", "--within 0s", "--within 0", "--sample 0"] {
        assert!(queues.refused(("stats", option)).starts_with("error: invalid value '0"), "{option}");
    }
}
