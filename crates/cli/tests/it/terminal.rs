//! Colour, widths and readers that go away.

use std::io::{Read, Write};

use test_support::prelude::*;

use crate::support::{Migrated, has_terminal, uniqueue};

/// Runs a line of shell on a terminal of 80 columns that types this, and returns the screen and the exit code.
/// `None`: there is no util-linux here to make one, and that was said.
fn on_a_terminal(jobs: &Migrated, line: &str, typed: &str) -> Option<(String, i32)> {
    if !has_terminal() {
        return None;
    }
    let line = line.replace("uniqueue", env!("CARGO_BIN_EXE_uniqueue"));
    let mut command = Command::new("script");
    command.args(["-qec", &format!("stty rows 24 cols 80 -echo; {line}"), "/dev/null"]);
    command.env("DATABASE_URL", &jobs.url).env("TERM", "xterm").env_remove("NO_COLOR").env_remove("COLUMNS");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Some((String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap()))
}

/// Whether a line does not fit 80 columns.
fn is_wide(line: &str) -> bool {
    let mut parts = line.trim_end().split('\u{1b}');
    let first = parts.next().unwrap_or_default().chars().count();
    // After the code of a colour, which ends in m.
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text).chars().count());
    first + rest.sum::<usize>() > 80
}

fn stderr_of(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn colour_is_for_terminals_and_for_color_always() {
    let bad = |arguments: &[&str]| {
        let mut command = uniqueue();
        command.args(arguments).args(["migrate", "--database-url", "mysql://x"]).env_remove("NO_COLOR");
        command
    };
    assert!(!stderr_of(&mut bad(&[])).contains('\u{1b}'));
    assert!(stderr_of(&mut bad(&["--color", "always"])).starts_with("\u{1b}[31merror:\u{1b}[0m invalid database URL"));
    assert!(stderr_of(bad(&["--color=always"]).env("NO_COLOR", "1")).contains('\u{1b}'), "--color=always is stronger");
    assert!(!stderr_of(&mut bad(&["--color", "never"])).contains('\u{1b}'));
    let wrong = stderr_of(uniqueue().args(["--color", "sometimes", "migrate"]));
    assert!(wrong.contains("'sometimes'") && wrong.contains("auto, always, never"), "{wrong}");
    // The parser's own errors as well.
    assert!(stderr_of(uniqueue().args(["dance", "--color=always"])).contains('\u{1b}'));
    assert!(!stderr_of(uniqueue().arg("dance")).contains('\u{1b}'));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child =
        uniqueue().args(["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}

#[test_support::test]
async fn a_standard_error_that_is_gone_changes_no_exit_code(jobs: Migrated) {
    for (line, code) in [
        ("queue list nope", 1),
        ("queue pause nope", 0),
        ("job show 019abc12-3456-7def-8a12-3456789abcde", 1),
        ("periodic run nope", 1),
        ("job cancel", 2),
        ("dance", 2),
    ] {
        let mut command = jobs.command(line);
        command.env("RUST_LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{line}");
    }
}

#[test_support::test]
async fn a_terminal_gets_colour_and_its_own_width_and_is_asked(jobs: Migrated) {
    let insert = "INSERT INTO uniqueue.job (id, kind, args, state, finalized_at)
        SELECT uniqueue.new_job_id(), 'a-kind', jsonb_build_object('text', repeat('long ', 50)), state::uniqueue.job_state,
            CASE WHEN state = 'discarded' THEN now() END
        FROM unnest(ARRAY['available', 'discarded']) AS state";
    jobs.execute(insert).await;
    let Some((list, code)) = on_a_terminal(&jobs, "uniqueue job list", "") else { return };
    assert!(code == 0 && list.contains("\u{1b}[31mdiscarded\u{1b}[0m"), "{list}");
    assert!(!list.lines().any(is_wide) && list.contains("a-kind"), "{list}");
    let (list, _) = on_a_terminal(&jobs, "NO_COLOR=1 uniqueue job list", "").unwrap();
    assert!(!list.contains('\u{1b}'), "{list}");
    let (list, _) = on_a_terminal(&jobs, "NO_COLOR=1 uniqueue --color always job list", "").unwrap();
    assert!(list.contains("\u{1b}[31mdiscarded\u{1b}[0m"), "{list}");

    const QUESTION: &str =
        "Cancel 1 job in schema uniqueue with --state pending,scheduled,available,running,retryable --kind a-kind?";
    let cancelled = "SELECT count(*)::text FROM uniqueue.job WHERE state = 'cancelled'";
    let (said, code) = on_a_terminal(&jobs, "uniqueue job cancel --kind a-kind", "n\n").unwrap();
    assert!(
        code == 1 && said.replace("\r\n", " ").contains(QUESTION) && said.contains("nothing was changed"),
        "{code}: {said}"
    );
    let (question, _) = said.split_once("[y/N]").unwrap();
    assert!(!question.lines().any(is_wide), "{said}");
    assert_eq!(jobs.texts(cancelled).await, ["0"]);
    let (said, code) = on_a_terminal(&jobs, "uniqueue job cancel --kind a-kind", "y\n").unwrap();
    assert!(code == 0 && said.contains("cancelled 1 job"), "{code}: {said}");
    assert_eq!(jobs.texts(cancelled).await, ["1"]);
}

#[test_support::test]
async fn a_terminal_gets_messages_and_errors_in_lines_of_whole_words(jobs: Migrated) {
    let insert = "uniqueue job insert a --key a-key-of-many-letters";
    if on_a_terminal(&jobs, insert, "").is_none() {
        return;
    }
    for (line, words) in [
        (insert, "completed, cancelled or discarded"),
        ("uniqueue job cancel", "give ids, or a filter such as --state discarded --queue emails, or --all"),
        ("uniqueue queue list --schema jobs", "schema jobs is not migrated: this uniqueue needs version "),
        ("uniqueue queue pause a-queue-that-has-no-runner", "has no live runner and no recent job; is its name right?"),
    ] {
        let (said, _) = on_a_terminal(&jobs, line, "").unwrap();
        let plain = said.replace("\r\n", " ");
        assert!(plain.contains(words), "{line}: {said}");
        assert!(said.lines().count() > 1 && !said.lines().any(is_wide), "{line}: {said}");
    }
}

/// Runs a command on a terminal, a statement while its question is open, and answers yes. Returns what it printed.
async fn answered_after(jobs: &Migrated, command: &str, statement: &str) -> String {
    let mut script = Command::new("script");
    let line = format!("timeout --foreground 20 {} {command}", env!("CARGO_BIN_EXE_uniqueue"));
    script.args(["-qec", &line, "/dev/null"]).env("DATABASE_URL", &jobs.url);
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut answer, mut screen, mut said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap(), Vec::new());
    while !String::from_utf8_lossy(&said).contains("[y/N]") {
        let mut bytes = [0; 100];
        let count = screen.read(&mut bytes).unwrap();
        assert!(count > 0, "it did not ask: {}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&bytes[..count]);
    }
    jobs.execute(statement).await;
    answer.write_all(b"y\n").unwrap();
    screen.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(child.wait().unwrap().success(), "{said}");
    said
}

const INSERT: &str = "INSERT INTO uniqueue.job (id, kind) VALUES (uniqueue.new_job_id(), 'a')";

#[test_support::test]
async fn jobs_inserted_after_the_question_are_not_changed(jobs: Migrated) {
    if on_a_terminal(&jobs, "true", "").is_none() {
        return;
    }
    jobs.execute(INSERT).await;
    let said = answered_after(&jobs, "job delete --kind a", INSERT).await;
    assert!(said.contains("deleted 1 job"), "{said}");
    assert_eq!(jobs.texts("SELECT count(*)::text FROM uniqueue.job").await, ["1"]);
}

#[test_support::test]
async fn a_time_from_now_counts_from_the_answer_to_the_question(jobs: Migrated) {
    if on_a_terminal(&jobs, "true", "").is_none() {
        return;
    }
    jobs.execute(INSERT).await;
    let note = "CREATE TABLE asked AS SELECT clock_timestamp() AS at";
    answered_after(&jobs, "job reschedule --kind a --in 1h", note).await;
    let later = "SELECT (j.scheduled_at >= a.at + interval '1 hour')::text FROM uniqueue.job AS j, asked AS a";
    assert_eq!(jobs.texts(later).await, ["true"]);
}

#[test_support::test]
async fn a_terminal_gets_errors_in_full_whatever_their_length(jobs: Migrated) {
    let error =
        "could not send: upstream said 503 Service Unavailable, after 3 redirects, for https://mail.example/v2/send";
    let insert = format!(
        "INSERT INTO uniqueue.job (id, kind, state, attempt, errors)
         SELECT uniqueue.new_job_id(), 'a', 'retryable', 2, jsonb_build_array(
             jsonb_build_object('attempt', 1, 'at', '2026-01-01T00:00:00Z', 'error', '{error}' || E'\\n\\n  at send.rs\\x1b[2J'),
             jsonb_build_object('attempt', 2, 'at', '2026-01-02T00:00:00Z', 'error', 'short'))"
    );
    jobs.execute(&insert).await;
    let id = jobs.texts("SELECT id::text FROM uniqueue.job").await.remove(0);
    let Some((shown, _)) = on_a_terminal(&jobs, &format!("NO_COLOR=1 uniqueue job show {id}"), "") else {
        return;
    };
    let shown = shown.replace("\r\n", "\n");
    assert!(
        shown.contains("attempt 1 failed: could not send") && shown.contains("attempt 2 failed: short\n"),
        "{shown}"
    );
    let (_, errors) = shown.split_once("\nerror of attempt 1, 2026-01-01T00:00:00Z\n").expect(&shown);
    assert!(errors.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let lines: Vec<_> = errors.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    assert_eq!(lines, [&error[..78], &error[78..], "", r"  at send.rs\u{1b}[2J"]);
}
