//! `uniqueue job`, from the outside.

mod changing;
mod inserting;
mod listing;
mod showing;

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{execute, migrated, texts, uniqueue};

/// A migrated database, and the command on it.
struct Jobs {
    url: String,
}

impl Jobs {
    async fn new() -> Self {
        Self { url: migrated("uniqueue").await }
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

/// The message of a command that could not do its work.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    stderr
}
