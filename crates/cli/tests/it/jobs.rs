//! `uniqueue job`, from the outside.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::{database, execute, texts, uniqueue};

/// A migrated database, and the command on it.
struct Jobs {
    url: String,
}

impl Jobs {
    async fn new() -> Self {
        let jobs = Self { url: database().await };
        assert!(jobs.command("migrate").output().unwrap().status.success());
        jobs
    }

    fn command(&self, line: &str) -> Command {
        self.with(line, &[])
    }

    /// The words of a line, and then these as they are.
    fn with(&self, line: &str, more: &[&str]) -> Command {
        let mut command = uniqueue();
        command.args(line.split_whitespace()).args(more).env("DATABASE_URL", &self.url);
        command
    }

    fn insert(&self, line: &str) -> String {
        let answer = json_of(&mut self.with(&format!("job insert --json {line}"), &[]), 0);
        answer["job"]["id"].as_str().unwrap().to_owned()
    }

    /// The ids that a list finds, oldest first.
    fn list(&self, line: &str, more: &[&str]) -> Vec<String> {
        let output = self.with(&format!("job list --json --oldest-first {line}"), more).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
        lines(&output).iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    }

    async fn state(&self, id: &str) -> String {
        texts(&self.url, &format!("SELECT state::text FROM uniqueue.job WHERE id = '{id}'")).await.remove(0)
    }

    async fn set(&self, id: &str, what: &str) {
        execute(&self.url, &format!("UPDATE uniqueue.job SET {what} WHERE id = '{id}'")).await;
    }
}

fn lines(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn json_of(command: &mut Command, code: i32) -> Value {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn text_of(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a command that could not do its work says.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    stderr
}

#[tokio::test]
async fn insert_tells_a_duplicate_from_a_new_job() {
    let jobs = Jobs::new().await;
    let line =
        "job insert email.send --queue emails --priority -3 --max-attempts 4 --in 1h --meta {\"tenant\":7} --key it's";
    let first =
        json_of(&mut jobs.with(line, &["--json", "--args", r#"{"n": 12345678901234567890, "a": "é\u0001"}"#]), 0);
    let job = &first["job"];
    let id = job["id"].as_str().unwrap();
    assert_eq!(
        (&first["duplicate"], &first["duplicate_of"], &first["replaced"]),
        (&json!(false), &Value::Null, &Value::Null)
    );
    for (name, value) in [
        ("kind", json!("email.send")),
        ("queue", json!("emails")),
        ("state", json!("scheduled")),
        ("priority", json!(-3)),
        ("max_attempts", json!(4)),
        ("meta", json!({"tenant": 7})),
        ("args", json!({"n": 12_345_678_901_234_567_890_u64, "a": "é\u{1}"})),
        ("unique_key", json!("it's")),
    ] {
        assert_eq!(job[name], value, "{name}");
    }
    let again = json_of(&mut jobs.with(line, &["--json"]), 0);
    assert_eq!((&again["duplicate"], &again["job"]["id"]), (&json!(true), &json!(id)));
    assert_eq!(again["duplicate_of"]["holder"], json!(id));
    let text = text_of(&mut jobs.with(line, &[]), 0);
    assert!(text.starts_with(&format!("duplicate, nothing was inserted: job {id} (scheduled, ")), "{text}");
    assert!(text.contains("it is free when it is completed, cancelled or discarded"), "{text}");

    // A policy decides what a duplicate does.
    let by_kind = |policy: &str| jobs.with("job insert report.build --policy", &[policy]);
    let text = text_of(&mut by_kind("{}"), 0);
    assert!(text.starts_with("inserted ") && text.ends_with(" (available)\n"), "{text}");
    let text = text_of(&mut by_kind(r#"{"on_conflict": "reject"}"#), 1);
    assert!(text.starts_with("rejected, nothing was inserted: job "), "{text}");
    let rejected = json_of(by_kind(r#"{"on_conflict": "reject"}"#).arg("--json"), 1);
    assert_eq!(rejected["rejected"]["holder_state"], json!("available"));
    let replaced = json_of(by_kind(r#"{"on_conflict": "replace"}"#).arg("--json"), 0);
    assert_eq!((&replaced["duplicate"], &replaced["replaced"]), (&json!(false), &rejected["rejected"]["holder"]));
    assert_eq!(texts(&jobs.url, "SELECT count(*)::text FROM uniqueue.job").await, ["3"]);

    // An id that is sent again is recognised.
    let id = "019abc12-3456-7def-8a12-3456789abcde";
    let sent = |extra: &[&str]| jobs.with("job insert a --pending --id 019abc12-3456-7def-8a12-3456789abcde", extra);
    assert_eq!(text_of(&mut sent(&[]), 0), format!("inserted {id} (pending)\n"));
    assert_eq!(text_of(&mut sent(&[]), 0), format!("inserted {id} (pending)\n"), "the same answer");
    assert_eq!(texts(&jobs.url, "SELECT count(*)::text FROM uniqueue.job WHERE kind = 'a'").await, ["1"]);
}

#[tokio::test]
async fn insert_says_what_became_of_a_duplicate() {
    let jobs = Jobs::new().await;
    let by = |answer: &str, args: &str| {
        let policy = format!(r#"{{"key": "k", "scope": "queued", {answer}}}"#);
        jobs.with("job insert index --args", &[args, "--policy", &policy])
    };
    let holder = jobs.insert("index --in 1h --args {\"i\":[1]} --policy {\"key\":\"k\",\"scope\":\"queued\"}");
    let append = r#""update": "append""#;
    let text = text_of(&mut by(append, r#"{"i": [2]}"#), 0);
    assert!(text.starts_with(&format!("updated, the holder was changed: job {holder} (scheduled, ")), "{text}");
    let updated = json_of(by(append, r#"{"i": [3]}"#).arg("--json"), 0);
    assert_eq!(
        (&updated["duplicate"], &updated["updated"], &updated["covered"]),
        (&json!(true), &json!(true), &json!(false))
    );
    assert_eq!((&updated["job"]["id"], &updated["job"]["args"]), (&json!(holder), &json!({"i": [1, 2, 3]})));

    let run_again = r#""on_conflict": "run_again""#;
    let text = text_of(&mut by(run_again, "{}"), 0);
    assert!(
        text.starts_with(&format!("covered, the holder starts after this insert: job {holder} (scheduled, ")),
        "{text}"
    );
    let covered = json_of(by(run_again, "{}").arg("--json"), 0);
    assert_eq!((&covered["updated"], &covered["covered"]), (&json!(false), &json!(true)));
    // A holder that runs does not cover the insert.
    jobs.set(&holder, "state = 'running', worker = gen_random_uuid(), attempt = 1, attempted_at = now()").await;
    let text = text_of(&mut by(run_again, "{}"), 0);
    assert!(text.starts_with("inserted ") && text.ends_with(" (available)\n"), "{text}");

    let running = jobs.insert("index --key r");
    jobs.set(&running, "state = 'running', worker = gen_random_uuid(), attempt = 1, attempted_at = now()").await;
    let preempt = r#"{"key": "r", "on_conflict": "preempt"}"#;
    let text = text_of(&mut jobs.with("job insert index --policy", &[preempt]), 0);
    assert!(text.ends_with(&format!(" (available, replacing {running})\n")), "{text}");
    assert_eq!(jobs.state(&running).await, "cancelled");
}

#[tokio::test]
async fn insert_puts_a_job_in_the_group_of_a_policy() {
    let jobs = Jobs::new().await;
    let by_customer = r#"{"keys": ["args"], "args_keys": ["customer"]}"#;
    let sync = |customer: u32, more: &[&str]| {
        let args = format!(r#"{{"customer": {customer}, "n": {}}}"#, more.len());
        let more = [&["--json", "--args", &args, "--group-policy", by_customer], more].concat();
        json_of(&mut jobs.with("job insert sync", &more), 0)["job"].clone()
    };
    let first = sync(1, &["--group-limit", "3"]);
    assert_eq!(
        (&first["group_limit"], &first["in_order"], &first["unique_key"]),
        (&json!(3), &json!(false), &Value::Null)
    );
    let second = sync(1, &["--in-order"]);
    assert_eq!((&second["group_key"], &second["in_order"]), (&first["group_key"], &json!(true)));
    assert_ne!(sync(2, &[])["group_key"], first["group_key"]);

    let one = |args: &str| {
        let policy = r#"{"keys": ["args"]}"#;
        let more = ["--json", "--args", args, "--policy", policy, "--one-at-a-time"];
        json_of(&mut jobs.with("job insert rebuild", &more), 0)
    };
    let inserted = one(r#"{"index": 1}"#);
    let job = &inserted["job"];
    // The text whose hash is the unique key.
    let group = r#"{"args":{"index":1},"queue":"default","type":"rebuild"}"#;
    assert_eq!((&job["group_key"], &job["group_limit"]), (&json!(group), &json!(1)));
    let again = one(r#"{"index": 1}"#);
    assert_eq!((&again["covered"], &again["job"]["id"]), (&json!(true), &job["id"]));
    assert_eq!(one(r#"{"index": 2}"#)["duplicate"], json!(false));
}

#[tokio::test]
async fn a_list_in_a_pipe_is_short_whatever_the_args() {
    let jobs = Jobs::new().await;
    let huge = "SELECT uniqueue.new_job_id(), 'a', jsonb_build_object('text', repeat('x', 5000000))";
    execute(&jobs.url, &format!("INSERT INTO uniqueue.job (id, kind, args) {huge}")).await;
    let text = text_of(&mut jobs.command("job list"), 0);
    assert!(text.len() < 2_000 && text.contains("xxx…\n"), "{}", text.len());
    // JSON has all of it.
    assert!(text_of(&mut jobs.command("job list --json"), 0).len() > 5_000_000);
}

#[tokio::test]
async fn args_come_from_a_file_or_from_standard_input_as_well() {
    let jobs = Jobs::new().await;
    let scratch = crate::support::directory();
    let file = scratch.path().join("args.json");
    std::fs::write(&file, "{\"from\": \"file\"}\n").unwrap();
    let from_file = json_of(&mut jobs.with("job insert a --json --args", &[&format!("@{}", file.display())]), 0);
    assert_eq!(from_file["job"]["args"], json!({"from": "file"}));

    let mut command = jobs.command("job insert a --json --args -");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"from\": \"stdin\"}").unwrap();
    let output = child.wait_with_output().unwrap();
    let inserted: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(inserted["job"]["args"], json!({"from": "stdin"}));

    for (line, said) in [
        ("job insert a --args {", "error: --args is not JSON: EOF"),
        ("job insert a --args @/no/such", "error: cannot read --args from /no/such: No such file"),
        ("job insert a --meta [1]", "error: --meta is not an object: [1]\nhint: "),
        ("job insert a --policy {\"keys\":[\"x\"]}", "error: invalid unique policy: keys: "),
        ("job insert a --policy nothing", "error: cannot read --policy from nothing: "),
        ("job insert a --key k --policy {}", "error: the argument '--key <KEY>' cannot be used with"),
        ("job insert a --in 1h --at now", "error: the argument '--in <DURATION>' cannot be used with"),
        (
            "job insert a --in soon",
            "error: invalid value 'soon' for '--in <DURATION>': expected a length of time such as",
        ),
        ("job insert a --at soon", "error: invalid value 'soon' for '--at <TIME>': expected a time such as"),
        ("job insert a --id 7", "error: invalid value '7' for '--id <ID>': invalid job id"),
        ("job insert a --priority 40000", "error: invalid value '40000' for '--priority <N>'"),
        ("job insert a --max-attempts 0", "error: invalid max_attempts: "),
    ] {
        let stderr = refused(&mut jobs.command(line));
        assert!(stderr.starts_with(said), "{line}: {stderr}");
    }
    let stderr = refused(jobs.command("job list --queue").arg(OsStr::from_bytes(b"\xff")));
    assert!(stderr.starts_with("error: invalid UTF-8"), "{stderr}");
    for (kind, said) in
        [("", "invalid kind: must not be empty"), ("a\nb", "invalid kind: must not hold control characters")]
    {
        let stderr = refused(&mut jobs.with("job insert", &[kind]));
        assert!(stderr.contains(said), "{kind:?}: {stderr}");
    }
}

#[tokio::test]
async fn list_finds_by_every_condition_and_takes_no_text_for_sql() {
    let jobs = Jobs::new().await;
    let odd = r#"'; DROP TABLE uniqueue.job; -- "%s" \ 漢字 🎉"#;
    let odd_id = {
        let args = json!({ "it's": [odd, 1] }).to_string();
        let mut insert = jobs.with("job insert --json", &[odd, "--queue", odd, "--key", odd, "--args", &args]);
        json_of(&mut insert, 0)["job"]["id"].as_str().unwrap().to_owned()
    };
    let plain = jobs.insert("plain --group customer:1");
    let failed = jobs.insert("fails --queue emails --priority 7 --meta {\"tenant\":7}");
    jobs.set(&failed, "state = 'discarded', finalized_at = now() - interval '3 hours', attempt = 9").await;
    let old = jobs.insert("old --in 2h --group customer:1");
    jobs.set(&old, "created_at = now() - interval '2 days'").await;
    let running = jobs.insert("runs --group customer:12");
    jobs.set(
        &running,
        "state = 'running', worker = gen_random_uuid(), attempt = 1, attempted_at = now() - interval '90 minutes'",
    )
    .await;
    let all = [&odd_id, &plain, &failed, &old, &running].map(String::as_str);
    let [odd_id, plain, failed, old, running] = all;
    for (line, more, found) in [
        ("", &[][..], &all[..]),
        ("--state discarded,running", &[], &[failed, running]),
        ("--state discarded --state scheduled", &[], &[failed, old]),
        ("--queue", &[odd], &[odd_id]),
        ("--kind", &[odd], &[odd_id]),
        ("--key", &[odd], &[odd_id]),
        ("--key", &["' OR true --"], &[]),
        ("--queue", &["' OR ''='"], &[]),
        ("--group customer:1", &[], &[plain, old]),
        ("--group customer:1 --state scheduled", &[], &[old]),
        ("--group customer:12 --queue default", &[], &[running]),
        ("--group customer", &[], &[]),
        ("--group", &["' OR true --"], &[]),
        ("--args", &[&json!({ "it's": [odd] }).to_string()], &[odd_id]),
        ("--args {\"it's\":[2]}", &[], &[]),
        ("--meta {\"tenant\":7} --priority 7", &[], &[failed]),
        ("--attempts-at-least 9", &[], &[failed]),
        ("--older-than 1d", &[], &[old]),
        ("--newer-than 1d --kind old", &[], &[]),
        ("--created-before 1h", &[], &[old]),
        ("--created-after 1h --kind plain", &[], &[plain]),
        ("--scheduled-after +1h", &[], &[old]),
        ("--attempted-before 1h --state running", &[], &[running]),
        ("--attempted-after 1h --state running", &[], &[]),
        ("--finalized-after 4h --finalized-before 2h", &[], &[failed]),
        ("--finalized-after 2026-01-01T00:00:00+01:00", &[], &[failed]),
        (&format!("{plain} {old}"), &[], &[plain, old]),
        (&format!("{plain} {old} --kind old"), &[], &[old]),
    ] {
        assert_eq!(jobs.list(line, more), found, "{line} {more:?}");
    }
    let text = text_of(&mut jobs.command("job list --state discarded"), 0);
    assert!(text.starts_with(" id "), "{text}");
    assert!(
        text.contains("fails") && text.contains("9/25") && text.contains("3h ago") && text.ends_with("(1 row)\n"),
        "{text}"
    );
    // Control characters are escaped, because a row may hold names that the library would refuse.
    jobs.set(plain, "kind = E'\\x1b[2Jevil\\n'").await;
    let text = text_of(&mut jobs.command("job list"), 0);
    assert!(text.contains(r"\u{1b}[2Jevil\n") && !text.contains('\u{1b}'), "{text}");

    for (line, said) in [
        (
            "job list --state done",
            "error: invalid value 'done' for '--state <STATE>'\n  [possible values: pending, scheduled, available, ",
        ),
        ("job list --args {", "error: --args is not JSON"),
        ("job list --group", "error: a value is required for '--group <KEY>'"),
        ("job list --limit 0", "error: invalid value '0' for '--limit <N>'"),
        (
            "job list --after x",
            "error: invalid value 'x' for '--after <ID>': invalid job id: \"x\"; hint: a job id is a UUID",
        ),
        (
            "job list --older-than 2h --created-before 1h",
            "error: the argument '--older-than <DURATION>' cannot be used with",
        ),
        ("job list --created-before 9001-01-01", "error: invalid created: must be in the years 1 to 9000"),
        ("job list --schema x;y", "error: invalid value 'x;y' for '--schema <NAME>'"),
        ("job list --schema other", "error: schema other is not migrated: this uniqueue needs version "),
    ] {
        let stderr = refused(&mut jobs.command(line));
        assert!(stderr.starts_with(said), "{line}: {stderr}");
    }
}

#[tokio::test]
async fn pages_follow_each_other_and_name_the_next() {
    let jobs = Jobs::new().await;
    execute(
        &jobs.url,
        "INSERT INTO uniqueue.job (id, kind) SELECT uniqueue.new_job_id(), 'page' FROM generate_series(1, 25)",
    )
    .await;
    let mut line = "job list --kind page --limit 10".to_owned();
    let (mut pages, mut ids) = (0, Vec::new());
    loop {
        let text = text_of(&mut jobs.command(&line), 0);
        pages += 1;
        ids.extend(text.lines().filter(|line| line.starts_with(" 0")).map(|line| line[..38].to_owned()));
        match text
            .lines()
            .last()
            .and_then(|last| last.strip_prefix(concat!("next: ", env!("CARGO_BIN_EXE_uniqueue"), " ")))
        {
            Some(next) => line = next.to_owned(),
            None => break,
        }
    }
    let (count, mut sorted) = (ids.len(), ids.clone());
    sorted.sort_unstable();
    sorted.dedup();
    sorted.reverse();
    assert_eq!((pages, count, sorted), (3, 25, ids));
}

#[tokio::test]
async fn the_first_digits_of_an_id_name_a_job() {
    let jobs = Jobs::new().await;
    let one = "019abc12-3456-7def-8a12-3456789abcde";
    for id in [one, "019abc12-3456-7def-9000-000000000000", "019abc13-0000-7000-8000-000000000000"] {
        text_of(&mut jobs.command(&format!("job insert a --id {id}")), 0);
    }
    for digits in [&one[..20], "019abc13", "019ABC13-0000", "019abc12-3456-7def-9000-000000000000"] {
        let shown = text_of(&mut jobs.command(&format!("job show {digits}")), 0);
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
        let output = jobs.command(&format!("job show {digits}")).output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(1), said));
    }
    // A change takes whole ids.
    assert_eq!(jobs.command("job cancel 019abc13").output().unwrap().status.code(), Some(2));
}

#[tokio::test]
async fn the_group_of_a_job_is_shown_with_what_holds_it_up() {
    let jobs = Jobs::new().await;
    let list = |jobs: &Jobs| text_of(&mut jobs.command("job list"), 0);
    jobs.insert("alone");
    assert!(!list(&jobs).contains("group"));
    let first = jobs.insert("first --group customer:1 --in-order --key k");
    let second = jobs.insert("second --group customer:1 --group-limit 3");
    let text = list(&jobs);
    assert_eq!(text.matches("customer:1").count(), 2, "{text}");
    let show = |id: &str| text_of(&mut jobs.command(&format!("job show {id}")), 0);
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
    let text = text_of(&mut jobs.command("unique explain first --key k"), 1);
    assert!(text.contains("customer:1, in order\n") && text.contains("why it waits"), "{text}");
}

#[tokio::test]
async fn why_a_job_waits_is_shown_and_listed() {
    let jobs = Jobs::new().await;
    let id = jobs.insert("waits --queue emails");
    let why = "No live runner works queue \"emails\".";
    let text = text_of(&mut jobs.command(&format!("job show {id}")), 0);
    let part = format!("\nwhy it waits\n  {why}\n    Start a runner that works queue \"emails\".\n");
    assert!(text.contains(&part), "{text}");
    assert!(text_of(&mut jobs.command("job list --why"), 0).contains(why));
    assert!(!text_of(&mut jobs.command("job list"), 0).contains(why));
    let shown = json_of(&mut jobs.command(&format!("job show --json {id}")), 0);
    assert_eq!((&shown["why"][0]["code"], &shown["id"]), (&"queue_unworked".into(), &id.as_str().into()));
    let listed = json_of(&mut jobs.command("job list --json --why"), 0);
    assert_eq!(listed["why"]["reason"], why);
    jobs.set(&id, "state = 'completed', finalized_at = now()").await;
    let text = text_of(&mut jobs.command(&format!("job show {id}")), 0);
    assert!(!text.contains("why it waits"), "{text}");
}

#[tokio::test]
async fn show_prints_everything_about_a_job() {
    let jobs = Jobs::new().await;
    let holder = jobs.insert("holds --key k --queue emails");
    let text = text_of(&mut jobs.command(&format!("job show {holder}")), 0);
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
    let text = text_of(&mut jobs.command(&format!("job show {failed}")), 0);
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
    let shown = json_of(&mut jobs.command(&format!("job show --json {failed}")), 0);
    assert_eq!((&shown["errors"][1]["error"], &shown["id"]), (&json!("fire"), &json!(failed)));

    let gone = "019abc12-3456-7def-8a12-3456789abcde";
    let output = jobs.command(&format!("job show --json {failed} {gone} {holder}")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(lines(&output).len(), 2);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("no such job: {gone}\n"));
    assert!(refused(&mut jobs.command("job show")).contains("<ID>..."));
}

#[tokio::test]
async fn given_jobs_are_changed_and_the_others_have_a_reason() {
    let jobs = Jobs::new().await;
    let (waits, done) = (jobs.insert("a"), jobs.insert("a"));
    jobs.set(&done, "state = 'completed', finalized_at = now()").await;
    let gone = "019abc12-3456-7def-8a12-3456789abcde";
    let dry = json_of(&mut jobs.command(&format!("job cancel --dry-run --json {waits} {done} {gone}")), 1);
    assert_eq!((&dry["dry_run"], &dry["jobs"]), (&json!(true), &json!({"exactly": 1})));
    assert_eq!((jobs.state(&waits).await, &dry["sample"][0]["id"]), ("available".to_owned(), &json!(waits)));

    assert_eq!(dry["unchanged"][1], json!({"id": gone, "reason": "there is no such job"}));
    let text = text_of(&mut jobs.command(&format!("job cancel --dry-run {done} {waits}")), 1);
    let said =
        format!("1 job would be cancelled; nothing was changed\nnot {done}: it is completed; cancel changes jobs");
    assert!(text.contains(&said), "{text}");
    text_of(&mut jobs.command(&format!("job cancel --dry-run {waits}")), 0);

    let answer = json_of(&mut jobs.command(&format!("job cancel --json {waits} {done} {gone}")), 1);
    assert_eq!((&answer["verb"], &answer["changed"]), (&json!("cancel"), &json!(1)));
    assert_eq!(answer["unchanged"][0]["id"], json!(done));
    let reason = answer["unchanged"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("it is completed; cancel changes jobs in state pending, scheduled"), "{reason}");
    assert_eq!(answer["unchanged"][1], json!({"id": gone, "reason": "there is no such job"}));
    assert_eq!(jobs.state(&waits).await, "cancelled");

    assert_eq!(text_of(&mut jobs.command(&format!("job retry {waits} {done}")), 0), "retried 2 jobs\n");
    assert_eq!(text_of(&mut jobs.command(&format!("job reschedule {waits} --in 1h")), 0), "rescheduled 1 job\n");
    assert_eq!(jobs.state(&waits).await, "scheduled");
    assert_eq!(text_of(&mut jobs.command(&format!("job reschedule {waits} --at now")), 0), "rescheduled 1 job\n");
    assert_eq!(jobs.state(&waits).await, "available");
    let text = text_of(&mut jobs.command(&format!("job priority -5 {waits}")), 0);
    assert_eq!(text, "changed the priority of 1 job\n");
    assert_eq!(texts(&jobs.url, "SELECT priority::text FROM uniqueue.job ORDER BY id").await, ["-5", "0"]);
    let held = jobs.insert("a --pending");
    assert_eq!(text_of(&mut jobs.command(&format!("job release {held}")), 0), "released 1 job\n");
    assert_eq!(jobs.state(&held).await, "available");
    let text = text_of(&mut jobs.command(&format!("job release {held}")), 1);
    assert_eq!(text, format!("released 0 jobs\nnot {held}: it is available; release changes jobs in state pending\n"));
    assert_eq!(text_of(&mut jobs.command(&format!("job delete {held} {waits} {done}")), 0), "deleted 3 jobs\n");
    assert_eq!(texts(&jobs.url, "SELECT count(*)::text FROM uniqueue.job").await, ["0"]);
}

#[tokio::test]
async fn jobs_that_a_retry_discards_are_not_counted_as_retried() {
    let jobs = Jobs::new().await;
    let policy = r#"{"on_reentry": "discard", "states": ["available"]}"#;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let inserted = json_of(&mut jobs.with("job insert sync --in 1h --json --policy", &[policy]), 0);
        ids.push(inserted["job"]["id"].as_str().unwrap().to_owned());
    }
    // It holds the key that all of them had.
    jobs.with("job insert sync --policy", &[policy]).output().unwrap();
    let other = jobs.insert("other");
    jobs.set(&other, "state = 'cancelled', finalized_at = now()").await;
    let text = text_of(&mut jobs.command(&format!("job retry {} {other}", ids[0])), 1);
    let discarded = format!("discarded 1 job, because another job holds the unique key: {}\n", ids[0]);
    assert_eq!(text, format!("retried 1 job\n{discarded}"));
    let mut answer = json_of(&mut jobs.command("job retry --state scheduled --kind sync --yes --json"), 1);
    // The jobs of a batch have no order.
    answer["discarded"].as_array_mut().unwrap().sort_by_key(|id| id.to_string());
    assert_eq!(answer, json!({"verb": "retry", "changed": 0, "discarded": ids[1..], "unchanged": []}));
    assert_eq!(jobs.state(&ids[2]).await, "discarded");
}

#[tokio::test]
async fn final_jobs_whose_retry_is_refused_are_named_with_the_holder_of_their_key() {
    let jobs = Jobs::new().await;
    let policy = r#"{"on_reentry": "discard"}"#;
    let insert = || json_of(&mut jobs.with("job insert sync --json --policy", &[policy]), 0);
    let id_of = |inserted: &Value| inserted["job"]["id"].as_str().unwrap().to_owned();
    let mut ids = Vec::new();
    for state in ["completed", "cancelled", "discarded"] {
        ids.push(id_of(&insert()));
        jobs.set(ids.last().unwrap(), &format!("state = '{state}', finalized_at = now()")).await;
    }
    let holder = id_of(&insert());
    let reason = format!("its unique key is held by job {holder}, and its policy is on_reentry discard");
    for (id, state) in ids.iter().zip(["completed", "cancelled", "discarded"]) {
        let text = text_of(&mut jobs.command(&format!("job retry {id}")), 1);
        assert_eq!(text, format!("retried 0 jobs\nnot {id}: {reason}\n"));
        let answer = json_of(&mut jobs.command(&format!("job retry --state {state} --yes --json")), 1);
        let unchanged = json!([{"id": id, "reason": reason}]);
        assert_eq!(answer, json!({"verb": "retry", "changed": 0, "discarded": [], "unchanged": unchanged}));
        assert_eq!(jobs.state(id).await, state);
    }
}

#[tokio::test]
async fn many_jobs_are_counted_and_shown_before_they_are_changed() {
    let jobs = Jobs::new().await;
    execute(
        &jobs.url,
        "INSERT INTO uniqueue.job (id, kind, queue, state, finalized_at)
         SELECT uniqueue.new_job_id(), 'bulk', 'q' || n % 2, s::uniqueue.job_state,
             CASE WHEN s IN ('completed', 'discarded', 'cancelled') THEN now() END
         FROM unnest(ARRAY['available', 'completed', 'discarded', 'retryable', 'cancelled']) AS s, generate_series(1, 1000) AS n",
    )
    .await;
    let states = async || {
        let sql = "SELECT state || ' ' || count(*) FROM uniqueue.job GROUP BY state ORDER BY state::text";
        texts(&jobs.url, sql).await
    };
    let before = states().await;

    // Without a state it selects failed jobs.
    let dry = json_of(&mut jobs.command("job retry --kind bulk --dry-run --json"), 0);
    assert_eq!((&dry["jobs"], dry["sample"].as_array().unwrap().len()), (&json!({"exactly": 2000}), 5));
    let text = text_of(&mut jobs.command("job retry --kind bulk --dry-run"), 0);
    assert!(text.ends_with("(5 rows)\n2,000 jobs would be retried; nothing was changed\n"), "{text}");
    let stderr = refused(&mut jobs.command("job retry --kind bulk"));
    assert_eq!(
        stderr,
        "error: retry of 2,000 jobs in schema uniqueue with --state retryable,discarded --kind bulk needs confirmation, and there is \
         no terminal\nhint: check with --dry-run, then give --yes\n"
    );
    assert_eq!(states().await, before);

    // Limits take the oldest.
    let some = json_of(&mut jobs.command("job retry --state discarded --limit 3 --yes --json"), 0);
    assert_eq!(some, json!({"verb": "retry", "changed": 3, "discarded": [], "unchanged": []}));
    assert_eq!(text_of(&mut jobs.command("job retry --kind bulk --yes"), 0), "retried 1,997 jobs\n");
    assert_eq!(states().await, ["available 3000", "cancelled 1000", "completed 1000"]);
    assert_eq!(text_of(&mut jobs.command("job retry --kind bulk --yes"), 0), "retried 0 jobs\n");
    assert_eq!(
        text_of(&mut jobs.command("job priority 3 --queue q1 --yes"), 0),
        "changed the priority of 1,500 jobs\n"
    );
    assert_eq!(text_of(&mut jobs.command("job cancel --priority 3 -y"), 0), "cancelled 1,500 jobs\n");
    assert_eq!(text_of(&mut jobs.command("job delete --state completed --yes"), 0), "deleted 1,000 jobs\n");
    assert_eq!(text_of(&mut jobs.command("job delete --all --yes"), 0), "deleted 4,000 jobs\n");

    for (line, said) in [
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
    ] {
        let stderr = refused(&mut jobs.command(line));
        assert!(stderr.starts_with(said), "{line}: {stderr}");
    }
}

#[tokio::test]
async fn interrupted_list_ends_its_query() {
    let jobs = Jobs::new().await;
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(&jobs.url).await.unwrap();
    // The query never ends, because another transaction has locked the table.
    sqlx::raw_sql("BEGIN; LOCK TABLE uniqueue.job").execute(&mut connection).await.unwrap();
    let child = jobs.command("job list").stderr(Stdio::piped()).spawn().unwrap();
    let waiting = "SELECT count(*)::text FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'uniqueue'";
    let until = async |count: &str| {
        let begun_at = std::time::Instant::now();
        while texts(&jobs.url, waiting).await != [count] {
            assert!(begun_at.elapsed().as_secs() < 20, "{count} queries wait");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    until("1").await;
    assert!(Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.as_str()), (Some(130), "error: interrupted: nothing was changed\n"));
    until("0").await;
}

#[tokio::test]
async fn interrupted_change_keeps_and_counts_its_batches() {
    let jobs = Jobs::new().await;
    execute(
        &jobs.url,
        "INSERT INTO uniqueue.job (id, kind) SELECT uniqueue.new_job_id(), 'bulk' FROM generate_series(1, 2500);
         -- Another transaction has locked a job of the third batch.
         CREATE TABLE held AS SELECT id FROM uniqueue.job ORDER BY id OFFSET 2200 LIMIT 1",
    )
    .await;
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(&jobs.url).await.unwrap();
    let lock = "BEGIN; SELECT FROM uniqueue.job WHERE id = (SELECT id FROM held) FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut connection).await.unwrap();
    let child =
        jobs.command("job cancel --kind bulk --yes").stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let cancelled = "SELECT count(*)::text FROM uniqueue.job WHERE state = 'cancelled'";
    let begun_at = std::time::Instant::now();
    while texts(&jobs.url, cancelled).await != ["2499"] {
        assert!(begun_at.elapsed().as_secs() < 20, "all others go through");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert_eq!(stderr, "error: interrupted: cancelled 2,499 jobs before; the same command changes the rest\n");
    sqlx::raw_sql("ROLLBACK").execute(&mut connection).await.unwrap();
    assert!(text_of(&mut jobs.command("job cancel --kind bulk --yes"), 0).starts_with("cancelled "));
    assert_eq!(texts(&jobs.url, "SELECT DISTINCT state::text FROM uniqueue.job").await, ["cancelled"]);
}

#[tokio::test]
async fn wait_prints_the_result_and_its_exit_code_says_whether_the_job_completed() {
    let jobs = Jobs::new().await;
    let id = jobs.insert("report.build --pending");
    let timed_out = text_of(&mut jobs.command(&format!("job wait {id} --timeout 50ms")), 1);
    assert_eq!(timed_out, format!("job {id} is not final yet: the time was over\n"));
    jobs.set(&id, "state = 'completed', finalized_at = now(), output = '{\"rows\": 7}'").await;
    let completed = text_of(&mut jobs.command(&format!("job wait {id}")), 0);
    assert_eq!(completed, format!("job {id} completed: {{\"rows\":7}}\n"));
    let json = json_of(&mut jobs.command(&format!("job wait {id} --json")), 0);
    assert_eq!((&json["waited"], &json["job"]["output"]), (&json!("final"), &json!({"rows": 7})));

    let error = r#"[{"attempt": 1, "at": "2026-01-01T00:00:00Z", "error": "no paper"}]"#;
    jobs.set(&id, &format!("state = 'discarded', output = NULL, errors = '{error}'")).await;
    let discarded = text_of(&mut jobs.command(&format!("job wait {id}")), 1);
    assert_eq!(discarded, format!("job {id} was discarded: no paper\n"));
    execute(&jobs.url, &format!("DELETE FROM uniqueue.job WHERE id = '{id}'")).await;
    let gone = text_of(&mut jobs.command(&format!("job wait {id}")), 1);
    assert_eq!(gone, format!("job {id} does not exist: it was deleted, or never inserted\n"));

    let inserted = json_of(&mut jobs.command("job insert report.build --json --wait 50ms"), 1);
    assert_eq!((&inserted["waited"], &inserted["result"]), (&json!("timed_out"), &Value::Null));
    // A job that completes meanwhile.
    for (words, began) in [("", "inserted "), ("--json", "{")] {
        let line = format!("job insert report.print --key print --wait 30s {words}");
        let waiting = jobs.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let print = "SELECT id::text FROM uniqueue.job WHERE kind = 'report.print' AND state = 'available'";
        let mut ids = Vec::new();
        while ids.is_empty() {
            ids = texts(&jobs.url, print).await;
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
    text_of(&mut jobs.command("queue retention default --completed 0s"), 0);
    let refused = jobs.command("job insert report.build --wait 1s").output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("queue default deletes jobs as they complete"), "{message}");
}
