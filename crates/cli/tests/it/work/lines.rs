//! Long-lived processes: a job in, an answer out.

use std::fs::File;

use test_support::prelude::*;
use test_support::tools::lacks;

use super::Site;
use crate::support::{directory, texts};

/// A shell script that does this for each job, and can answer with an output.
fn script(each: &str) -> String {
    format!(
        r#"answer() {{ printf '{{"id":"%s","output":%s}}\n' "$id" "$1"; }}
        n=0; while read job; do id=${{job#*\"id\":\"}}; id=${{id%%\"*}}; {each}; done"#
    )
}

#[test_support::test]
async fn long_lived_processes_are_fed_line_by_line_and_one_that_ends_is_replaced(site: Site) {
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(site.insert(&format!(r#"{{"n": {n}}}"#)).await);
    }
    // The third job of a process ends it.
    let each = r#"n=$((n + 1)); [ $n = 3 ] && { echo "too much" >&2; exit 1; }; answer "[$$, $n]""#;
    let mut working = site.work(&["--lines"], &script(each));
    let attempts: Vec<_> = (0..6).map(|_| working.attempt()).collect();
    let outcomes: Vec<_> = attempts.iter().map(|attempt| attempt["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["completed", "completed", "failed", "completed", "completed", "failed"]);
    assert_eq!(attempts[2]["error"], "exit status: 1: too much");
    site.until(&ids[4], "completed").await;
    let outputs = texts(&site.url, "SELECT output::text FROM uniqueue.job WHERE output IS NOT NULL ORDER BY id").await;
    let outputs: Vec<(u32, u32)> = outputs.iter().map(|output| serde_json::from_str(output).unwrap()).collect();
    assert_eq!(outputs.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 2, 1, 2]);
    assert_eq!((outputs[0].0, outputs[2].0), (outputs[1].0, outputs[3].0), "of one process each");
    assert_ne!(outputs[0].0, outputs[2].0);
    assert_eq!(working.stop().code(), Some(0));
}

#[test_support::test]
async fn an_answer_that_is_no_line_of_json_fails_the_job_and_not_the_next(site: Site) {
    for n in 0..2 {
        site.insert(&format!(r#"{{"n": {n}}}"#)).await;
    }
    let each = r#"case $job in *'"n":0'* | *'"n": 0'*) echo oops;; *) answer null;; esac"#;
    let mut working = site.work(&["--lines"], &script(each));
    assert_eq!(working.attempt()["error"], "the program's answer is not a line of JSON: oops");
    assert_eq!(working.attempt()["outcome"], "completed");
}

#[test_support::test]
async fn lines_that_do_not_name_the_job_are_passed_on_and_shift_no_answer(site: Site) {
    let directory = directory();
    let log = directory.path().join("log");
    for n in 0..3 {
        site.insert(&format!(r#"{{"n": {n}}}"#)).await;
    }
    let each = r#"n=$((n + 1)); echo '{"level": "info", "n": '$n'}'; echo null; echo '{"id": "another", "error": "no"}'; answer $n"#;
    let mut working = site.work_to(File::create(&log).unwrap(), &["--lines"], &script(each));
    for _ in 0..3 {
        assert_eq!(working.attempt()["outcome"], "completed");
    }
    let outputs = "SELECT output::text FROM uniqueue.job WHERE state = 'completed' ORDER BY id";
    eventually!(texts(&site.url, outputs).await == ["1", "2", "3"], "{:?}", texts(&site.url, outputs).await);
    let log = std::fs::read_to_string(log).unwrap();
    for n in 1..=3 {
        let lines = format!("{{\"level\": \"info\", \"n\": {n}}}\nnull\n{{\"id\": \"another\", \"error\": \"no\"}}\n");
        assert!(log.contains(&lines), "{log}");
    }
}

#[test_support::test]
async fn a_process_that_writes_between_two_jobs_is_replaced(site: Site) {
    let directory = directory();
    let (log, written) = (directory.path().join("log"), directory.path().join("written"));
    let each = format!(r#"n=$((n + 1)); answer $n; echo '{{"id": "late"}}'; touch {}"#, written.display());
    let mut working = site.work_to(File::create(&log).unwrap(), &["--lines"], &script(&each));
    for _ in 0..2 {
        let id = site.insert("{}").await;
        assert_eq!(working.attempt()["outcome"], "completed");
        site.until(&id, "completed").await;
        assert_eq!(site.job(&id, "output").await, "1", "the first job of its process");
        eventually!(std::fs::remove_file(&written).is_ok());
    }
    assert!(std::fs::read_to_string(&log).unwrap().contains("\n{\"id\": \"late\"}\n"));
}

#[test_support::test]
async fn a_process_that_is_ended_holds_up_no_job(site: Site) {
    let directory = directory();
    let (written, go) = (directory.path().join("written"), directory.path().join("go"));
    // The first process is not told to end by the end of its input. It ends when the second has answered.
    let each = format!(
        "answer 1; [ -e {written} ] && touch {go} && continue
        echo late; touch {written}; until [ -e {go} ]; do sleep 0.05; done",
        written = written.display(),
        go = go.display(),
    );
    let mut working = site.work(&["--grace", "10min", "--lines"], &script(&each));
    site.insert("{}").await;
    assert_eq!(working.attempt()["outcome"], "completed");
    eventually!(written.exists());
    let next = site.insert("{}").await;
    site.until(&next, "completed").await;
    assert_eq!(working.stop().code(), Some(0));
}

#[tokio::test]
async fn the_example_answers_each_job() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        lacks("python", "Python 3");
        return;
    }
    let site = Site::new().await;
    let ids = [site.insert(r#"{"text": "four"}"#).await, site.insert(r#"{"text": ""}"#).await];
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/other_languages/lines.py");
    let _working = site.work(&["--lines"], &format!("exec python3 {example}"));
    site.until(&ids[0], "completed").await;
    site.until(&ids[1], "discarded").await;
    assert_eq!(site.job(&ids[0], "output").await, "4");
}

fn lives(process: &str) -> bool {
    Command::new("kill").args(["-0", process]).stderr(Stdio::null()).status().unwrap().success()
}

#[tokio::test]
async fn the_program_ends_with_the_command_that_is_killed() {
    for lines in [&[][..], &["--lines"]] {
        let site = Site::new().await;
        let directory = directory();
        let started = directory.path().join("started");
        site.insert("{}").await;
        // Neither the shell nor its child minds the end of its input, or SIGTERM.
        let script = format!(
            "trap '' TERM; read job; sleep 600 & echo $$ $! >{0}.new; mv {0}.new {0}; while :; do sleep 0.05; done",
            started.display()
        );
        let working = site.work(lines, &script);
        eventually!(started.exists());
        let processes = std::fs::read_to_string(&started).unwrap();
        working.signal("KILL");
        for process in processes.split_whitespace() {
            eventually!(!lives(process), "{process} of {processes} lives");
        }
    }
}
