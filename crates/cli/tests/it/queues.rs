//! `uniqueue queue` and `uniqueue periodic`, from the outside.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{database, execute, texts, uniqueue};

struct Queues {
    url: String,
}

impl Queues {
    async fn new() -> Self {
        let queues = Self { url: database().await };
        assert!(queues.command(&["migrate"]).output().unwrap().status.success());
        queues
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = uniqueue();
        command.args(words).env("DATABASE_URL", &self.url);
        command
    }

    fn text(&self, words: &[&str], code: i32) -> String {
        let output = self.command(words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn lines(&self, words: &[&str]) -> Vec<Value> {
        self.text(words, 0).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    fn refused(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{words:?}: {stderr}");
        stderr
    }
}

#[tokio::test]
async fn queues_are_listed_with_their_jobs() {
    let queues = Queues::new().await;
    let odd = "'; DROP TABLE uniqueue.queue; -- é";
    assert!(queues.text(&["job", "insert", "a", "--queue", odd], 0).starts_with("inserted "));
    queues.text(&["job", "insert", "a", "--queue", "busy", "--in", "1h"], 0);
    execute(
        &queues.url,
        "INSERT INTO uniqueue.job (id, kind, queue, created_at, scheduled_at)
         SELECT uniqueue.new_job_id(), 'a', 'deep', at, at
         FROM generate_series(1, 150), LATERAL (SELECT now() - interval '5 minutes' AS at) AS t",
    )
    .await;
    let all = queues.lines(&["queue", "list", "--json", "--count-up-to", "100"]);
    let names: Vec<_> = all.iter().map(|queue| queue["name"].as_str().unwrap()).collect();
    assert_eq!(names, [odd, "busy", "deep"]);
    assert_eq!((&all[2]["available"], &all[1]["scheduled"]), (&json!({"at_least": 100}), &json!({"exactly": 1})));
    let text = queues.text(&["queue", "list", "--count-up-to", "100"], 0);
    let deep = text.lines().find(|line| line.contains("deep")).unwrap();
    assert!(deep.contains("no runner") && deep.contains("100+") && deep.contains("5m"), "{text}");
    assert!(text.ends_with("(3 rows)\n"), "{text}");

    let one = queues.lines(&["queue", "list", "deep", "--json"]);
    assert_eq!((one.len(), &one[0]["available"]), (1, &json!({"exactly": 150})));
    let output = queues.command(&["queue", "list", "deep", "nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "no such queue: \"nowhere\"\n");
}

#[tokio::test]
async fn a_list_shows_group_limits_and_fairness_within_80_columns() {
    let queues = Queues::new().await;
    queues.text(&["queue", "limit", "plain", "4"], 0);
    assert!(!queues.text(&["queue", "list"], 0).contains("groups"));
    queues.text(&["queue", "limit", "a long name of a queue with emails", "12", "--per-group", "--fair", "yes"], 0);
    queues.text(&["queue", "limit", "fair", "--fair", "yes"], 0);
    let output = queues.command(&["queue", "list"]).env("COLUMNS", "80").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let cell = |name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        line.split('|').nth(2).unwrap_or_else(|| panic!("{text}")).trim().to_owned()
    };
    assert_eq!([cell("queue"), cell("a long"), cell("fair"), cell("plain")], ["groups", "12, fair", "fair", ""]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[tokio::test]
async fn groups_are_listed_with_those_held_up_first_or_by_name() {
    let queues = Queues::new().await;
    let sql = "
        INSERT INTO uniqueue.job (id, kind, queue, group_key)
        SELECT uniqueue.new_job_id(), 'a', 'emails', g FROM unnest('{d, b, c, a}'::text[]) AS g;
        SELECT uniqueue.limit_groups('emails', 1);
        UPDATE uniqueue.job SET state = 'running', attempt = 1, worker = gen_random_uuid() WHERE group_key = 'c';
        INSERT INTO uniqueue.job (id, kind, queue, group_key) VALUES (uniqueue.new_job_id(), 'a', 'emails', 'c')";
    execute(&queues.url, sql).await;
    let groups = |options: &[&str]| {
        let text = queues.text(&[&["queue", "groups", "--json"], options].concat(), 0);
        let group = |line: &str| serde_json::from_str::<Value>(line).unwrap()["group"].as_str().unwrap().to_owned();
        text.lines().map(group).collect::<Vec<_>>().join("")
    };
    assert_eq!(groups(&[])[..1], *"c");
    assert_eq!(groups(&["--by-name"]), "abcd");
    assert_eq!(groups(&["emails", "--by-name", "--limit", "2"]), "ab");
    assert_eq!(groups(&["none", "--by-name"]), "");
}

#[tokio::test]
async fn a_queue_has_the_status_of_the_view() {
    let queues = Queues::new().await;
    let sql = "
        INSERT INTO uniqueue.job (id, kind, queue, state, scheduled_at, attempt, attempted_at, worker)
        SELECT uniqueue.new_job_id(), 'a', queue, state::uniqueue.job_state, now() - interval '1 min',
            CASE state WHEN 'running' THEN 1 ELSE 0 END, CASE state WHEN 'running' THEN now() END,
            CASE state WHEN 'running' THEN gen_random_uuid() END
        FROM generate_series(1, 5), (VALUES
            ('dead', 'running'), ('overdue', 'scheduled'), ('failed', 'retryable'), ('held', 'pending'),
            ('works', 'running'), ('full', 'running'), ('waits', 'available'), ('halted', 'available'), ('slowed', 'available')
        ) AS jobs (queue, state);
        INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups)
        VALUES (gen_random_uuid(), 'r', '{works,full,waits,halted,bored,slowed}', now() + interval '1 h', true);
        SELECT uniqueue.limit_queue('full', 5), uniqueue.limit_queue('bored', 5), uniqueue.pause_queue('halted'),
            uniqueue.hold_queue('slowed', '1 h')";
    execute(&queues.url, sql).await;
    let view = "SELECT queue || ' is ' || status FROM uniqueue.queue_status ORDER BY queue";
    let view = texts(&queues.url, view).await;
    let expected = [
        "bored is idle",
        "dead is no runner",
        "failed is no runner",
        "full is at its limit",
        "halted is paused",
        "held is idle",
        "overdue is no runner",
        "slowed is held",
        "waits is waiting",
        "works is working",
    ];
    assert_eq!(view, expected);
    let text = queues.text(&["queue", "list"], 0);
    let listed = text.lines().skip(2).filter_map(|line| {
        let mut cells = line.split('|').map(str::trim);
        let (queue, is) = (cells.next()?, cells.next()?);
        Some(format!("{queue} is {}", if is.starts_with("paused ") { "paused" } else { is.split(',').next()? }))
    });
    assert_eq!(listed.collect::<Vec<_>>(), view, "{text}");
}

#[tokio::test]
async fn queues_are_paused_limited_and_keep_their_jobs() {
    let queues = Queues::new().await;
    let odd = "it's \"odd\"; --";
    let text = queues.text(&["queue", "pause", odd, "emails"], 0);
    let expected = format!(
        "queue {odd} is paused; running jobs are finished\nqueue emails is paused; running jobs are finished\n"
    );
    assert_eq!(text, expected);
    let paused = queues.lines(&["queue", "pause", "emails", "--json"]);
    assert!(paused[0]["paused_at"].is_string() && paused[0]["changed"] == json!(false), "{paused:?}");
    let text = queues.text(&["queue", "pause", "emails"], 0);
    assert!(text.starts_with("queue emails was paused already, since 20"), "{text}");
    let text = queues.text(&["queue", "list"], 0);
    assert!(text.lines().filter(|line| line.contains("| paused ")).count() == 2, "{text}");
    assert_eq!(queues.text(&["queue", "resume", odd], 0), format!("queue {odd} is resumed\n"));
    assert_eq!(queues.text(&["queue", "resume", odd], 0), format!("queue {odd} was not paused\n"));
    let resumed = queues.lines(&["queue", "resume", "emails", "--json"]);
    assert_eq!((&resumed[0]["name"], &resumed[0]["paused_at"]), (&json!("emails"), &json!(null)));
    assert_eq!(resumed[0]["changed"], json!(true));
    assert_eq!(queues.lines(&["queue", "resume", "emails", "--json"])[0]["changed"], json!(false));

    assert_eq!(
        queues.text(&["queue", "limit", "emails", "5"], 0),
        "queue emails runs up to 5 jobs at once, over all runners\n"
    );
    assert_eq!(queues.lines(&["queue", "limit", "emails", "7", "--json"])[0]["limit"], json!(7));
    assert_eq!(
        queues.text(&["queue", "limit", "emails", "none"], 0),
        "queue emails has no limit but the runners' own\n"
    );

    let said = "queue emails takes inserts until 1,000 jobs wait\n";
    assert_eq!(queues.text(&["queue", "max-waiting", "emails", "1000"], 0), said);
    assert_eq!(queues.lines(&["queue", "list", "emails", "--json"])[0]["max_waiting"], json!(1000));
    assert_eq!(queues.lines(&["queue", "max-waiting", "emails", "1", "--json"])[0]["max_waiting"], json!(1));
    queues.text(&["job", "insert", "a", "--queue", "emails"], 0);
    let full = queues.refused(&["job", "insert", "a", "--queue", "emails"]);
    assert!(full.starts_with("error: queue emails is full: at most 1 of its jobs may wait"), "{full}");
    let said = "queue emails takes inserts however many jobs wait\n";
    assert_eq!(queues.text(&["queue", "max-waiting", "emails", "none"], 0), said);
    assert_eq!(queues.lines(&["queue", "list", "emails", "--json"])[0]["max_waiting"], json!(null));

    let kept = "SELECT concat_ws(' ', keep_completed, keep_cancelled, keep_discarded) FROM uniqueue.queue WHERE name = 'emails'";
    let retention = |more: &[&'static str]| [&["queue", "retention", "emails"], more].concat();
    assert_eq!(
        queues.text(&retention(&["--completed", "1h", "--discarded", "forever"]), 0),
        "queue emails keeps completed jobs 1h, cancelled ones as the runners are configured, discarded ones forever\n"
    );
    assert_eq!(texts(&queues.url, kept).await, ["01:00:00 1000 years"]);
    // What is not given stays, and can be read.
    queues.text(&retention(&["--completed", "0s", "--cancelled", "2d"]), 0);
    assert_eq!(texts(&queues.url, kept).await, ["00:00:00 48:00:00 1000 years"]);
    assert_eq!(
        queues.text(&retention(&["--cancelled", "runners"]), 0),
        "queue emails keeps completed jobs 0s, cancelled ones as the runners are configured, discarded ones forever\n"
    );
    for words in [&["queue", "retention", "emails", "--json"][..], &["queue", "list", "emails", "--json"]] {
        let settings = &queues.lines(words)[0];
        let kept = ["keep_completed", "keep_cancelled", "keep_discarded"].map(|name| settings[name].clone());
        assert_eq!(kept, [json!(0.0), json!(null), json!("forever")], "{words:?}");
    }
    let text = queues.text(&retention(&["--as-runners-say"]), 0);
    assert_eq!(
        (text.as_str(), texts(&queues.url, kept).await),
        ("queue emails keeps its final jobs as the runners are configured\n", vec![String::new()])
    );

    for (words, said) in [
        (
            &["queue", "limit", "emails", "0"][..],
            "error: invalid limit: must be 1 to 2147483647; to run nothing, pause the queue: 0",
        ),
        (
            &["queue", "max-waiting", "emails", "0"],
            "error: invalid max_waiting: must be 1 to 2147483647; for no limit give None: 0",
        ),
        (&["queue", "limit", "emails", "few"], "error: invalid value 'few' for '[N]': expected a number, or none"),
        (&["queue", "pause", ""], "error: invalid queue: must not be empty: \"\""),
        (&["queue", "pause"], "error: the following required arguments were not provided"),
        (
            &["queue", "retention", "emails", "--completed", "long"],
            "error: invalid value 'long' for '--completed <DURATION>'",
        ),
    ] {
        let stderr = queues.refused(words);
        assert!(stderr.starts_with(said), "{words:?}: {stderr}");
    }
}

#[tokio::test]
async fn queues_and_their_groups_get_rates_and_are_held() {
    let queues = Queues::new().await;
    let rate = |more: &[&'static str]| queues.text(&[&["queue", "rate", "emails"], more].concat(), 0);
    assert_eq!(rate(&["10/1s"]), "queue emails starts jobs at a rate of 10/1s, over all runners\n");
    assert_eq!(
        rate(&["100/1h", "--burst", "5", "--per-group"]),
        "queue emails starts jobs of each group at a rate of 100/1h, burst 5, over all runners\n"
    );
    let settings = &queues.lines(&["queue", "list", "emails", "--json"])[0];
    assert_eq!(settings["rate"], json!({"count": 10, "period": 1.0, "burst": 10}));
    assert_eq!(settings["group_rate"], json!({"count": 100, "period": 3600.0, "burst": 5}));
    let text = queues.text(&["queue", "list"], 0);
    assert!(text.contains("10/1s; 100/1h, burst 5 per group"), "{text}");
    assert_eq!(rate(&["none"]), "queue emails starts jobs at any rate\n");
    assert_eq!(rate(&["none", "--per-group"]), "queue emails starts jobs of each group at any rate\n");

    let text = queues.text(&["queue", "hold", "emails", "10m"], 0);
    assert!(
        text.starts_with("queue emails is held until 20") && text.ends_with("; running jobs are finished\n"),
        "{text}"
    );
    let text = queues.text(&["queue", "list"], 0);
    assert!(text.contains("| held, ends in "), "{text}");
    assert_eq!(queues.text(&["queue", "resume", "emails"], 0), "queue emails is resumed\n");
    assert_eq!(queues.text(&["queue", "resume", "emails"], 0), "queue emails was not paused\n");
    queues.text(&["job", "insert", "a", "--queue", "emails", "--group", "customer:1"], 0);
    assert_eq!(
        queues.text(&["queue", "hold", "emails", "1h30m", "--group", "customer:1"], 0),
        "group customer:1 of queue emails is held for 1h30m\n"
    );
    let text = queues.text(&["queue", "groups", "emails"], 0);
    assert!(text.contains("is held until 20") && text.contains("in 1h "), "{text}");
    let resume = ["queue", "resume", "emails", "--group", "customer:1"];
    assert_eq!(queues.text(&resume, 0), "group customer:1 of queue emails is resumed\n");
    assert_eq!(queues.text(&resume, 0), "group customer:1 of queue emails was not held\n");

    for (words, said) in [
        (
            &["queue", "rate", "emails", "0/1s"][..],
            "error: invalid rate: count must be 1 to 1000000; to run nothing, pause the queue: 0",
        ),
        (&["queue", "rate", "emails", "1/0"], "error: invalid rate: period must be 1 ms to 31 days: 0ns"),
        (&["queue", "rate", "emails", "1/1s", "--burst", "0"], "error: invalid rate: burst must be 1 to 1000000: 0"),
        (&["queue", "rate", "emails", "fast"], "error: invalid value 'fast' for '<COUNT/PERIOD>'"),
        (&["queue", "hold", "emails", "long"], "error: invalid value 'long' for '<DURATION>'"),
        (&["queue", "hold", "emails", "1h", "--group", ""], "error: invalid group: must be 1 to 512 bytes: 0"),
    ] {
        let stderr = queues.refused(words);
        assert!(stderr.starts_with(said), "{words:?}: {stderr}");
    }
}

#[tokio::test]
async fn a_queue_without_runner_and_jobs_is_set_with_a_note() {
    let queues = Queues::new().await;
    queues.text(&["job", "insert", "a", "--queue", "emails"], 0);
    let runner = "INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups)
        VALUES (gen_random_uuid(), 'r', '{reports}', now() + interval '1 h', true)";
    execute(&queues.url, runner).await;
    for (words, has_note) in [
        (&["queue", "pause", "emials"][..], true),
        (&["queue", "pause", "emials"], false),
        (&["queue", "limit", "it's", "5", "--json"], true),
        (&["queue", "retention", "reprots"], false),
        (&["queue", "retention", "reprots", "--completed", "1h"], true),
        (&["queue", "resume", "nowhere"], false),
        (&["queue", "pause", "emails"], false),
        (&["queue", "limit", "reports", "5"], false),
        (&["queue", "max-waiting", "emial", "5"], true),
        (&["queue", "max-waiting", "emial", "none"], false),
    ] {
        let output = queues.command(words).output().unwrap();
        let expected = match has_note {
            true => {
                format!("note: this queue has no live runner and no recent job; is its name right? {:?}\n", words[2])
            }
            false => String::new(),
        };
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(0), false), "{words:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected, "{words:?}");
    }
    assert_eq!(texts(&queues.url, "SELECT name FROM uniqueue.queue WHERE name = 'nowhere'").await, [""; 0]);
}

#[tokio::test]
async fn the_settings_of_a_mistyped_queue_are_removed_and_those_of_a_used_one_stay() {
    let queues = Queues::new().await;
    let names = "SELECT name FROM uniqueue.queue ORDER BY name";
    queues.text(&["queue", "pause", "emials", "emails", "busy", "done"], 0);
    // An empty row stays after a resume, and can be removed as well.
    queues.text(&["queue", "resume", "done"], 0);
    queues.text(&["job", "insert", "a", "--queue", "emails"], 0);
    let runner = "INSERT INTO uniqueue.runner (id, name, queues, leased_until, knows_groups)
        VALUES (gen_random_uuid(), 'r', '{busy}', now() + interval '1 h', true);
        INSERT INTO uniqueue.job (id, kind, queue, state, finalized_at)
        VALUES (uniqueue.new_job_id(), 'a', 'done', 'completed', now())";
    execute(&queues.url, runner).await;
    assert_eq!(
        queues.text(&["queue", "remove", "emials", "emails", "busy", "done", "nowhere"], 1),
        "removed the settings of queue emials\n\
         queue emails is left as it is: it has unfinished jobs\n\
         queue busy is left as it is: a live runner works it\n\
         removed the settings of queue done\n\
         queue nowhere is left as it is: it has no settings\n"
    );
    assert_eq!(texts(&queues.url, names).await, ["busy", "emails"]);
    execute(&queues.url, "DELETE FROM uniqueue.job; DELETE FROM uniqueue.runner").await;
    let removed = queues.lines(&["queue", "remove", "emails", "busy", "--json"]);
    assert_eq!(removed[0], json!({"name": "emails", "removed": true, "reason": null}));
    assert_eq!(texts(&queues.url, names).await, [""; 0]);
    assert!(queues.refused(&["queue", "remove", ""]).starts_with("error: invalid queue: must not be empty"));
}

#[tokio::test]
async fn stats_are_printed_once_or_line_by_line() {
    let queues = Queues::new().await;
    execute(
        &queues.url,
        "INSERT INTO uniqueue.job (id, kind, state, created_at, scheduled_at, attempted_at, finalized_at)
         SELECT uniqueue.new_job_id(), 'a', 'completed', at, at, at + interval '30 s', at + interval '32 s'
         FROM generate_series(1, 12), LATERAL (SELECT now() - interval '40 s' AS at) AS t;
         INSERT INTO uniqueue.job (id, kind) SELECT uniqueue.new_job_id(), 'a' FROM generate_series(1, 1200)",
    )
    .await;
    let text = queues.text(&["stats"], 0);
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
    let stats: Value =
        serde_json::from_str(&queues.text(&["stats", "--json", "--within", "10m", "--sample", "5"], 0)).unwrap();
    assert_eq!((&stats["jobs"]["available"], &stats["rates"]["inserted"]), (&json!({"exactly": 1200}), &json!(2.02)));
    assert_eq!((&stats["finished"]["jobs"], &stats["finished"]["run"]["p99"]), (&json!(5), &json!(2.0)));
    assert_eq!((&stats["rates"]["completed"], &stats["oldest_available_age"].is_f64()), (&Value::Null, &true));

    // It ends when standard output is closed, which is no error.
    for (words, lines) in [(&["stats", "--watch", "0.05"][..], 3), (&["stats", "--watch", "50ms", "--json"], 2)] {
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
    let mut child =
        queues.command(&["stats", "--watch", "1"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    // An interrupt is the usual end.
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    for words in [
        ["stats", "--watch", "0"],
        ["stats", "--watch", "0.0"],
        ["stats", "--within", "0s"],
        ["stats", "--within", "0"],
        ["stats", "--sample", "0"],
    ] {
        assert!(queues.refused(&words).starts_with("error: invalid value '0"), "{words:?}");
    }
}

#[tokio::test]
async fn periodic_jobs_are_listed_run_paused_and_removed() {
    let queues = Queues::new().await;
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
    let ran: Value = serde_json::from_str(&queues.text(&["periodic", "run", odd, "--json"], 0)).unwrap();
    assert_eq!((&ran["name"], ran["job"].is_string(), &ran["duplicate"]), (&json!(odd), true, &json!(false)));
    let key = "UPDATE uniqueue.periodic SET unique_policy = '{\"key\": \"k\"}' WHERE name = 'daily'";
    execute(&queues.url, key).await;
    let first: Value = serde_json::from_str(&queues.text(&["periodic", "run", "daily", "--json"], 0)).unwrap();
    assert_eq!(first["duplicate"], json!(false));
    let again: Value = serde_json::from_str(&queues.text(&["periodic", "run", "daily", "--json"], 0)).unwrap();
    assert_eq!(again, json!({"name": "daily", "job": first["job"], "duplicate": true}));
    let holder = first["job"].as_str().unwrap();
    assert_eq!(
        queues.text(&["periodic", "run", "daily"], 0),
        format!("duplicate, nothing was inserted: the key is held by job {holder}\n")
    );
    assert_eq!(queues.text(&["periodic", "pause", odd], 0), format!("periodic job {odd} is paused\n"));
    assert!(queues.text(&["periodic", "list"], 0).contains("| paused "));
    let resumed: Value = serde_json::from_str(&queues.text(&["periodic", "resume", odd, "--json"], 0)).unwrap();
    assert_eq!(resumed, json!({"name": odd, "is": "resumed"}));
    assert_eq!(queues.text(&["periodic", "remove", odd], 0), format!("periodic job {odd} is removed\n"));

    for verb in ["run", "pause", "resume", "remove"] {
        let output = queues.command(&["periodic", verb, odd]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{verb}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("no such periodic job: "), "{verb}");
    }
}

#[tokio::test]
async fn periodic_jobs_are_added_and_changed() {
    let queues = Queues::new().await;
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
    for (line, code) in [
        (vec!["periodic", "set", "daily", "--schedule", "0 25 * * *"], 2),
        (vec!["periodic", "add", "other", "digest.send", "every day"], 2),
        (vec!["periodic", "set", "nobody", "--priority", "1"], 1),
    ] {
        assert_eq!(queues.command(&line).output().unwrap().status.code(), Some(code), "{line:?}");
    }
    execute(&queues.url, "UPDATE uniqueue.periodic SET source = 'code'").await;
    let output = queues.command(&["periodic", "set", "daily", "--priority", "-1"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("it is defined in code"));
}

#[tokio::test]
async fn backfill_looks_first_then_puts_waiting_jobs_in_groups_and_says_what_is_left() {
    let queues = Queues::new().await;
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
