//! A command that is killed at any moment leaves no PostgreSQL behind.
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use test_support::prelude::*;

use crate::support::{directory, uniqueue};

/// Generous: a loaded machine takes its time.
const WAIT: Duration = Duration::from_secs(30);

/// Servers and shells whose command line names the directory.
fn processes_of(directory: &Path) -> Vec<String> {
    let list = Command::new("ps").args(["-A", "-ww", "-o", "pid=,args="]).output().unwrap();
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let named = directory.to_str().unwrap();
    list.lines().filter(|line| line.contains(named)).map(str::to_owned).collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    eventually!(blocking holds(), "not within {WAIT:?}: {what}");
}

/// Whether the guard of this command's server starts it: the log of initdb is emptied, the server's log made, or the server
/// is the guard's child. The last of these stays, so a slow look misses none.
fn is_starting(directory: &Path, saw_initdb: &mut bool) -> bool {
    let home = homes(directory).into_iter().next();
    let log = home.as_ref().and_then(|home| fs::metadata(home.join("log")).ok());
    *saw_initdb |= log.as_ref().is_some_and(|log| log.len() > 0);
    // The process and the signal that stops it. initdb is stopped by TERM.
    let child = home.and_then(|home| fs::read_to_string(home.join("child")).ok());
    let is_server = child.is_some_and(|child| child.trim_end().ends_with("INT") || child.trim_end().ends_with("QUIT"));
    is_server || directory.join("data/server.log").exists() || (*saw_initdb && log.is_some_and(|log| log.len() == 0))
}

fn homes(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("uniqueue-")).collect()
}

/// Starts a command with a server in the directory, and kills it a while after a moment in the server's start.
fn kill_at(number: usize, signal: &str, mut is_moment: impl FnMut(&Path) -> bool, delay: Duration) {
    let scratch = directory();
    let path = scratch.path();
    fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    let mut command = uniqueue();
    if number.is_multiple_of(2) {
        command.args(["demo", "--json", "--keep"]).arg(path);
    } else {
        command.args(["db", "start", "--data-dir"]).arg(path.join("data"));
    }
    command.env("TMPDIR", path).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // Looks often: the delays are as short as a millisecond.
    let began = Instant::now();
    while !is_moment(path) {
        assert!(began.elapsed() < WAIT, "not within {WAIT:?}: the moment comes");
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(delay);
    assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    let is_clean = || homes(path).is_empty() && processes_of(path).is_empty();
    eventually(&format!("nothing is left after {signal} {delay:?} after it"), is_clean);
}

const SIGNALS: [&str; 3] = ["TERM", "INT", "KILL"];

#[test]
fn a_command_killed_while_its_server_starts_leaves_no_server() {
    if Command::new("ps").output().is_err() {
        eprintln!("SKIPPED: no ps to look for servers with");
        return;
    }
    // At the very start of the server, which hears no signal at first.
    for (number, milliseconds) in [0, 0, 1, 1, 2, 3, 6].into_iter().enumerate() {
        let mut saw_initdb = false;
        let is_moment = |path: &Path| is_starting(path, &mut saw_initdb);
        kill_at(number, SIGNALS[number / 2 % 3], is_moment, Duration::from_millis(milliseconds));
    }
    // From the moment in which the guard has made its home: in initdb, and once the server works.
    for (number, milliseconds) in [0, 150, 400, 1200].into_iter().enumerate() {
        let is_moment = |path: &Path| !homes(path).is_empty();
        kill_at(number, SIGNALS[number / 2 % 3], is_moment, Duration::from_millis(milliseconds));
    }
}
