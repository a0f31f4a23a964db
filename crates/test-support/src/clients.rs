//! Python and Node with the clients of this repository, and what `scripts/client-packages` installs for them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use crate::tools::lacks;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where the sources of a client are.
pub fn source(client: &str) -> PathBuf {
    root().join("clients").join(client)
}

/// Where what a client needs is installed.
pub fn installed(client: &str) -> PathBuf {
    root().join("target/clients").join(client)
}

/// `python3` with the client, psycopg and mypy. None, which is told: there is no Python 3.11, or pip cannot install them.
pub fn python() -> Option<Command> {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    if !IS_THERE.get_or_init(|| install("python")) {
        lacks("python", "Python 3.11 or newer, with pip");
        return None;
    }
    let mut python = Command::new("python3");
    let path = std::env::join_paths([source("python").join("src"), installed("python")]).expect("a path");
    // The sources stay as they are.
    python.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python)
}

/// `node` in a directory where `uniqueue` and `pg` can be imported. None, which is told: there is no Node.js 20, or npm cannot
/// install pg and the compiler.
///
/// # Panics
///
/// Where the client does not compile.
pub fn node() -> Option<Command> {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    let directory = installed("typescript");
    let is_there = IS_THERE.get_or_init(|| {
        let is_there = install("typescript");
        if is_there {
            let compiler = directory.join("node_modules/.bin/tsc");
            let compiled = Command::new(compiler).current_dir(&directory).output().expect("the compiler runs");
            assert!(compiled.status.success(), "{}", text_of(&compiled));
        }
        is_there
    });
    if !is_there {
        lacks("node", "Node.js 20 or newer, with npm");
        return None;
    }
    let mut node = Command::new("node");
    node.current_dir(directory);
    Some(node)
}

/// `python3` with the clients of Faktory. None, which is told, where [`python`] is none.
pub fn python_with_faktory() -> Option<Command> {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    if !IS_THERE.get_or_init(|| install("faktory-python")) {
        lacks("python", "Python 3.11 or newer, with pip");
        return None;
    }
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", installed("faktory-python")).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python)
}

/// The directory where programs for Node.js find the client of Faktory. None, which is told, where [`node`] is none.
pub fn node_with_faktory() -> Option<PathBuf> {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    if !IS_THERE.get_or_init(|| install("faktory-node")) {
        lacks("node", "Node.js 20 or newer, with npm");
        return None;
    }
    Some(installed("faktory-node"))
}

fn install(client: &str) -> bool {
    let installed = Command::new(root().join("scripts/client-packages")).arg(client).output().expect("bash");
    if !installed.status.success() {
        println!("{}", text_of(&installed));
    }
    installed.status.success()
}

/// What a command wrote.
pub fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A program that is killed when this is dropped.
pub struct Program(pub Child);

impl Program {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().expect("the program starts"))
    }

    /// Sends a signal by name: `KILL`, `STOP`, `CONT`, `TERM`.
    pub fn signal(&self, name: &str) {
        crate::process::signal(self.0.id(), name);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Kills a stopped process as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
