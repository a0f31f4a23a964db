//! Running the command.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
pub(crate) use test_support::by_url::{database, execute, migrated, texts};
use test_support::tools::lacks;

/// A directory that every user can enter.
pub(crate) fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("its mode");
    directory
}

/// Whether these tests run as root, whom no permission stops.
pub(crate) fn is_root(directory: &TempDir) -> bool {
    fs::metadata(directory.path()).expect("its owner").uid() == 0
}

pub(crate) fn uniqueue() -> Command {
    command(Path::new(env!("CARGO_BIN_EXE_uniqueue")))
}

pub(crate) fn command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .env_remove("DATABASE_URL")
        .env_remove("UNIQUEUE_SCHEMA")
        .env_remove("UNIQUEUE_PLACES")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

/// Whether there is a psql: PostgreSQL's server can be here without it.
pub(crate) fn has_psql() -> bool {
    let is_there = Command::new("psql").arg("--version").output().is_ok();
    if !is_there {
        lacks("psql", "PostgreSQL's client");
    }
    is_there
}

/// Whether there is util-linux, to make a terminal.
pub(crate) fn has_terminal() -> bool {
    let version = Command::new("script").arg("--version").output();
    let is_there = version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("util-linux"));
    if !is_there {
        lacks("script", "util-linux, to make a terminal");
    }
    is_there
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    uniqueue().args(arguments).output().expect("the command")
}

/// Runs it and reads the one object that it prints.
pub(crate) fn run_json(command: &mut Command) -> (i32, Value) {
    let output = command.output().expect("the command");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(stderr, "", "nothing beside the object");
    (output.status.code().expect("no signal"), value)
}

/// A migrated database, and the command on it as ben gives it.
pub(crate) struct Migrated {
    pub(crate) url: String,
}

impl Migrated {
    pub(crate) async fn new() -> Self {
        Self { url: migrated("uniqueue").await }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = uniqueue();
        command.args(words).env("DATABASE_URL", &self.url).env("UNIQUEUE_ACTOR", "ben");
        command
    }

    pub(crate) fn text(&self, words: &[&str], code: i32) -> String {
        let output = self.command(words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The object that it prints with `--json`.
    pub(crate) fn json(&self, words: &[&str], code: i32) -> Value {
        serde_json::from_str(&self.text(&[words, &["--json"]].concat(), code)).unwrap()
    }

    pub(crate) fn lines(&self, words: &[&str]) -> Vec<Value> {
        self.text(words, 0).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    pub(crate) fn refused(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{words:?}: {stderr}");
        stderr
    }
}

/// A command that stays in the foreground, with the object that it has printed.
pub(crate) struct Foreground {
    pub(crate) object: Value,
    child: Child,
    _stdout: BufReader<ChildStdout>,
}

impl Foreground {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the command");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        let mut printed = String::new();
        // The object's last line is the first that is a lone brace.
        while !printed.ends_with("\n}\n") {
            assert_ne!(stdout.read_line(&mut printed).expect("a line"), 0, "it ended early: {printed}");
        }
        Self { object: serde_json::from_str(&printed).expect("an object"), child, _stdout: stdout }
    }

    /// The most memory that it has had so far, in KiB. `None`: this system does not tell.
    pub(crate) fn peak(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn stop(mut self, signal: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().expect("kill").success());
        self.child.wait().expect("its end")
    }

    /// Waits for its end, which somebody else sees to.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("its end")
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
