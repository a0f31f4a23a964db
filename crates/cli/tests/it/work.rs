//! `uniqueue work`: jobs worked by programs.

mod lines;

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, ExitStatus};

use test_support::bouncer;
use test_support::prelude::*;
use test_support::process::{Killed, signal};

use crate::support::{execute, migrated, run, texts, uniqueue};

/// A migrated database with jobs, and a command that works them.
struct Site {
    url: String,
}

/// The running command.
struct Working {
    child: Killed,
    lines: BufReader<ChildStdout>,
}

impl Site {
    async fn new() -> Self {
        Self { url: migrated("uniqueue").await }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = uniqueue();
        command.args(arguments).env("DATABASE_URL", &self.url);
        command
    }

    async fn insert(&self, args: &str) -> String {
        let insert = format!("SELECT id::text FROM uniqueue.insert_job('task', '{args}', queue => 'q')");
        texts(&self.url, &insert).await.remove(0)
    }

    /// Works with a shell script.
    fn work(&self, options: &[&str], script: &str) -> Working {
        self.work_any(&[options, &["--kind", "task"]].concat(), script)
    }

    /// Likewise jobs of every kind.
    fn work_any(&self, options: &[&str], script: &str) -> Working {
        self.work_to(Stdio::inherit(), options, script)
    }

    /// Likewise, with another standard error.
    fn work_to(&self, stderr: impl Into<Stdio>, options: &[&str], script: &str) -> Working {
        let fixed = ["work", "--json", "--queue", "q"];
        let grace: &[&str] = if options.contains(&"--grace") { &[] } else { &["--grace", "1s"] };
        let arguments = [&fixed, grace, options, &["--", "sh", "-c", script]].concat();
        let mut child = self.command(&arguments).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Working { child: Killed(child), lines }
    }

    /// The columns of a job, as text.
    async fn job(&self, id: &str, columns: &str) -> String {
        texts(&self.url, &format!("SELECT concat_ws(' ', {columns}) FROM uniqueue.job WHERE id = '{id}'"))
            .await
            .remove(0)
    }

    async fn until(&self, id: &str, state: &str) {
        eventually!(
            self.job(id, "state").await == state,
            "{id} is not {state}: {}",
            self.job(id, "state, errors").await
        );
    }
}

impl Working {
    /// The next attempt that the command prints.
    fn attempt(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it ended early");
        serde_json::from_str(&line).unwrap()
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        self.child.wait().unwrap()
    }
}

#[test_support::test]
async fn a_program_gets_the_job_and_its_last_line_is_the_output(site: Site) {
    let id = site.insert(r#"{"n": 5}"#).await;
    let script = r#"read job; echo "text before"; echo "{\"got\": $job, \"kind\": \"$UNIQUEUE_JOB_KIND $UNIQUEUE_JOB_ATTEMPT\"}""#;
    let mut working = site.work(&[], script);
    let attempt = working.attempt();
    assert_eq!(
        (&attempt["job"], &attempt["outcome"], &attempt["attempt"]),
        (&json!(id), &json!("completed"), &json!(1))
    );
    site.until(&id, "completed").await;
    let output: Value = serde_json::from_str(&site.job(&id, "output").await).unwrap();
    assert_eq!((&output["got"]["args"], &output["got"]["id"]), (&json!({"n": 5}), &json!(id)));
    assert_eq!((&output["got"]["queue"], &output["kind"]), (&json!("q"), &json!("task 1")));
    assert_eq!(working.stop().code(), Some(0));
}

#[test_support::test]
async fn exit_status_and_standard_error_are_the_error_and_an_answer_says_what_becomes_of_the_job(site: Site) {
    let cases = [
        ("echo nothing >&2; echo to say >&2; exit 3", "failed", "retryable", "exit status: 3: nothing\nto say"),
        ("exit 4", "failed", "retryable", "exit status: 4"),
        ("kill -9 $$", "failed", "retryable", "signal: 9 (SIGKILL)"),
        ("echo \"{\\\"error\\\": \\\"busy\\\", \\\"retry_after\\\": \\\"5m\\\"}\"", "failed", "retryable", "busy"),
        ("echo \"{\\\"error\\\": \\\"bad\\\"}\"", "failed", "retryable", "bad"),
        (r#"echo '{"error": "no", "code": "declined", "retryable": false}'"#, "discarded", "discarded", "no"),
        (r#"echo '{"discard": "gone", "code": "gone", "details": [1]}'"#, "discarded", "discarded", "gone"),
        (r#"echo '{"error": "said", "code": "locked"}'; echo not this >&2; exit 1"#, "failed", "retryable", "said"),
        ("echo \"{\\\"snooze\\\": \\\"1h\\\"}\"", "snoozed", "scheduled", ""),
        ("echo \"{\\\"cancel\\\": \\\"not wanted\\\"}\"", "cancelled", "cancelled", "not wanted"),
        ("echo \"{\\\"discard\\\": \\\"hopeless\\\"}\"", "discarded", "discarded", "hopeless"),
        ("echo no json; exec >&-; cat >/dev/null", "completed", "completed", ""),
    ];
    // The job says which of them.
    let mut script = String::from("read job; case $job in ");
    for (n, (what, ..)) in cases.iter().enumerate() {
        script.push_str(&format!("*'\"n\": {n}}}'* | *'\"n\":{n}}}'*) {what};; "));
    }
    script.push_str("esac");
    let mut working = site.work(&[], &script);
    for (n, (what, outcome, state, error)) in cases.iter().enumerate() {
        let id = site.insert(&format!(r#"{{"n": {n}}}"#)).await;
        // On a slow machine, the retry of an earlier job comes in between.
        let attempt = std::iter::repeat_with(|| working.attempt()).find(|attempt| attempt["job"] == json!(id)).unwrap();
        assert_eq!(attempt["outcome"], json!(outcome), "{what}: {attempt}");
        site.until(&id, state).await;
        assert_eq!(site.job(&id, "errors -> 0 ->> 'error'").await, *error, "{what}");
        let code = attempt["code"].as_str().unwrap_or_default();
        assert_eq!(site.job(&id, "errors -> 0 ->> 'code'").await, code, "{what}");
    }
    let codes = "SELECT string_agg(DISTINCT errors -> 0 ->> 'code', ' ') FROM uniqueue.job";
    assert_eq!(texts(&site.url, codes).await, ["declined exit_3 exit_4 gone locked signal_9"]);
    let waits = "SELECT (extract(epoch FROM max(scheduled_at) - now()) / 60)::int::text FROM uniqueue.job WHERE errors::text LIKE '%busy%'";
    assert_eq!(texts(&site.url, waits).await, ["5"]);
}

#[tokio::test]
async fn a_program_reads_the_outputs_of_parents_if_it_asks_for_them() {
    for (options, expected) in [(&["--parents"][..], json!([3, "completed", "completed"])), (&[], Value::Null)] {
        let site = Site::new().await;
        let parent = site.insert(r#"{"n": 1}"#).await;
        let insert = format!("SELECT id::text FROM uniqueue.insert_job('task', queue => 'q', after => '{{{parent}}}')");
        let child = texts(&site.url, &insert).await.remove(0);
        let script = r#"read job; case $job in *'"n": 1'* | *'"n":1'*) echo 3;; *) echo "$job";; esac"#;
        let _working = site.work(options, script);
        site.until(&child, "completed").await;
        let seen = "output #> '{parents,0}' -> 'output' || (output #> '{parents,0}' -> 'outcome') || (output #> '{parents,0}' -> 'condition')";
        let seen = match expected {
            Value::Null => "output -> 'parents'",
            _ => seen,
        };
        let seen = site.job(&child, seen).await;
        assert_eq!(serde_json::from_str::<Value>(&seen).unwrap_or_default(), expected, "{options:?}");
    }
}

#[test_support::test]
async fn a_job_over_its_time_is_terminated_and_one_that_ignores_that_is_killed_with_its_children(site: Site) {
    let directory = crate::support::directory();
    let pid = directory.path().join("pid");
    // A second attempt would outlive the test.
    execute(&site.url, "SELECT uniqueue.register_kind('task', max_attempts => 1)").await;
    let polite = site.insert(r#"{"polite": true}"#).await;
    let script = format!(
        r#"read job; case $job in *polite*) trap 'echo stopping >&2; exit 9' TERM;; *) trap '' TERM; sleep 600 & echo $! > {};; esac
        while :; do sleep 0.05; done"#,
        pid.display()
    );
    let mut working = site.work(&["--timeout", "300ms"], &script);
    // The shell may say that its own child was terminated as well.
    let attempt = working.attempt();
    let error = attempt["error"].as_str().unwrap();
    assert!(error.starts_with("exit status: 9: ") && error.ends_with("stopping"), "{error}");
    site.until(&polite, "discarded").await;
    assert!(
        site.job(&polite, "errors -> 0 ->> 'error'").await.contains("timed out after 300 ms"),
        "{}",
        site.job(&polite, "errors").await
    );
    site.insert("{}").await;
    let attempt = working.attempt();
    // A process that is killed for its memory has the code signal_9.
    assert_eq!((&attempt["error"], &attempt["code"]), (&json!("signal: 9 (SIGKILL)"), &json!("timed_out")));
    assert_eq!(site.job(&polite, "errors -> 0 ->> 'code'").await, "timed_out");
    let child = std::fs::read_to_string(&pid).unwrap();
    eventually!(
        !Command::new("kill").args(["-0", child.trim()]).stderr(Stdio::null()).status().unwrap().success(),
        "the program's child lives"
    );
}

#[tokio::test]
async fn a_cancelled_job_is_stopped_by_signal() {
    for lines in [&[][..], &["--lines"]] {
        let site = Site::new().await;
        let id = site.insert("{}").await;
        let script = r#"trap 'echo "asked to stop" >&2; exit 7' TERM; read job; while :; do sleep 0.05; done"#;
        let mut working = site.work(lines, script);
        site.until(&id, "running").await;
        assert!(site.command(&["job", "cancel", &id]).output().unwrap().status.success());
        let error = working.attempt()["error"].as_str().unwrap().to_owned();
        assert!(error.starts_with("exit status: 7: ") && error.ends_with("asked to stop"), "{error}");
        assert_eq!(site.job(&id, "state").await, "cancelled");
    }
}

#[test_support::test]
async fn a_stop_waits_for_running_jobs_and_a_second_signal_gives_them_back(site: Site) {
    let directory = crate::support::directory();
    let go_on = directory.path().join("go-on");
    let id = site.insert("{}").await;
    let script = format!("while [ ! -e {} ]; do sleep 0.02; done", go_on.display());
    let working = site.work(&[], &script);
    site.until(&id, "running").await;
    working.signal("TERM");
    std::fs::write(&go_on, "").unwrap();
    let mut working = working;
    assert_eq!(working.attempt()["outcome"], "completed");
    assert_eq!(working.child.wait().unwrap().code(), Some(0));
    assert_eq!(site.job(&id, "state").await, "completed");

    let id = site.insert("{}").await;
    let mut working = site.work(&[], "while :; do sleep 0.02; done");
    site.until(&id, "running").await;
    working.signal("TERM");
    execute(&site.url, "SELECT pg_sleep(0.2)").await;
    working.signal("TERM");
    assert_eq!(working.child.wait().unwrap().code(), Some(0));
    assert_eq!(site.job(&id, "state, attempt").await, "available 0");
}

#[test_support::test]
async fn a_signal_stops_the_work_in_a_place_in_order(site: Site) {
    let map = json!({"places": [{"name": "a", "url": site.url}]}).to_string();
    let named = site.command(&["places", "init", "--places", &map]).output().unwrap();
    assert!(named.status.success(), "{named:?}");
    let directory = crate::support::directory();
    let go_on = directory.path().join("go-on");
    let id = site.insert("{}").await;
    let script = format!("while [ ! -e {} ]; do sleep 0.02; done", go_on.display());
    let mut working = site.work(&["--places", &map, "--place", "a"], &script);
    site.until(&id, "running").await;
    working.signal("TERM");
    std::fs::write(&go_on, "").unwrap();
    assert_eq!(working.attempt()["outcome"], "completed");
    assert_eq!(working.child.wait().unwrap().code(), Some(0));
    assert_eq!(site.job(&id, "state").await, "completed");
}

#[test_support::test]
async fn several_jobs_run_at_once_and_other_kinds_are_left_alone(site: Site) {
    let other = "SELECT id::text FROM uniqueue.insert_job('other', queue => 'q')";
    let other = texts(&site.url, other).await.remove(0);
    let directory = crate::support::directory();
    // Each waits for the others.
    let script = format!(
        "cd {0} && touch $UNIQUEUE_JOB_ID && while [ $(ls | wc -l) -lt 4 ]; do sleep 0.02; done",
        directory.path().display()
    );
    for _ in 0..4 {
        site.insert("{}").await;
    }
    let mut working = site.work(&["--concurrency", "4"], &script);
    for _ in 0..4 {
        assert_eq!(working.attempt()["outcome"], "completed");
    }
    assert_eq!(site.job(&other, "state").await, "available");
}

#[test_support::test]
async fn without_a_kind_every_kind_of_the_queue_is_worked(site: Site) {
    let insert = "SELECT count(i.id)::text FROM unnest('{one,two,three}'::text[]) AS k (kind)
        CROSS JOIN LATERAL uniqueue.insert_job(k.kind, '{}', queue => 'q', group_key => nullif(k.kind, 'one')) AS i";
    assert_eq!(texts(&site.url, insert).await, ["3"]);
    let mut working = site.work_any(&[], "true");
    let mut kinds: Vec<_> = (0..3).map(|_| working.attempt()["kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    assert_eq!(kinds, ["one", "three", "two"]);
    // A runner that may know any kind leaves none unknown, whatever others know.
    let other = "INSERT INTO uniqueue.runner (id, name, queues, kinds, leased_until, knows_groups)
        VALUES (gen_random_uuid(), 'other', '{q}', '{four}', now() + interval '1 hour', true)";
    execute(&site.url, other).await;
    let unknown = "SELECT count(*)::text FROM uniqueue._kind_obstacle('q', 'five')";
    assert_eq!(texts(&site.url, unknown).await, ["0"]);
    assert_eq!(working.stop().code(), Some(0));
    assert_eq!(texts(&site.url, unknown).await, ["1"], "only the other one is left");
}

#[test_support::test]
async fn a_registered_kind_says_how_long_its_jobs_run_and_wait(site: Site) {
    let register = r#"SELECT 1 FROM uniqueue.register_kind(
        'task', timeout => '200 ms', backoff => '{"first": "1h", "jitter": 0}')"#;
    execute(&site.url, register).await;
    let id = site.insert("{}").await;
    let mut working = site.work(&[], "sleep 60");
    assert_eq!(working.attempt()["outcome"], "failed");
    site.until(&id, "retryable").await;
    let waits = "round(extract(epoch FROM scheduled_at - (errors -> 0 ->> 'at')::timestamptz) / 60)";
    assert_eq!(site.job(&id, waits).await, "60");
}

#[tokio::test]
async fn jobs_are_worked_through_a_pooler() {
    let Some(pooler) = bouncer::shared().await else { return };
    let direct = Site::new().await;
    let site = Site { url: pooler.url(&direct.url) };
    let id = direct.insert("{}").await;
    let refused = site.command(&["work", "--queue", "q", "--", "true"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--poll-only"), "{refused:?}");
    let _working = site.work(&["--poll-only"], "true");
    direct.until(&id, "completed").await;
}

#[test_support::test]
async fn a_wrong_command_line_says_what_to_give(site: Site) {
    for (arguments, said) in [
        (
            &["work", "--queue", "q", "--kind", "k", "--", "no-such-program"][..],
            "error: no such program: no-such-program\nhint: give the path",
        ),
        (&["work", "--queue", "q", "--kind", "k", "--", "/etc/passwd"], "error: no such program: /etc/passwd\n"),
        (&["work", "--queue", "q", "--kind", "k"], "PROGRAM"),
        (&["work", "--kind", "k", "--", "true"], "--queue"),
        (&["work", "--queue", "q", "--kind", "", "--", "true"], "kind"),
        (&["work", "--queue", "", "--kind", "k", "--", "true"], "queue"),
    ] {
        let output = site.command(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    }
    assert!(String::from_utf8_lossy(&run(&["work", "--help"]).stdout).contains("-- python worker.py"));
}
