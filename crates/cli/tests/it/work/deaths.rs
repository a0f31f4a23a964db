//! A command that is killed.

use std::process::{Command, Stdio};

use test_support::eventually;

use super::Site;
use crate::support::directory;

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
