//! `uniqueue queue` and `uniqueue periodic`, from the outside.

mod listing;
mod periodic;
mod settings;

use std::process::Command;

use serde_json::Value;

use crate::support::{migrated, uniqueue};

struct Queues {
    url: String,
}

impl Queues {
    async fn new() -> Self {
        Self { url: migrated("uniqueue").await }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = uniqueue();
        command.args(words).env("DATABASE_URL", &self.url).env("UNIQUEUE_ACTOR", "ben");
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
