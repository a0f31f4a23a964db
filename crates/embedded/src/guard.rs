//! The guard: the process between this one and the server. It stops the server and cleans up however this process ends.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;

use super::error::{failure, failure_from};
use super::user::ServerUser;
use crate::Result;

const SCRIPT: &str = include_str!("guard.sh");

/// The guard's arguments.
#[derive(Debug)]
pub(super) struct Orders<'a> {
    pub(super) binaries: &'a Path,
    /// The data directory to keep, if any.
    pub(super) data_dir: Option<&'a Path>,
    pub(super) settings: &'a [(String, String)],
    /// A server whose data is kept writes a checkpoint before it ends.
    pub(super) stop_signal: &'static str,
    pub(super) sync: &'static str,
    pub(super) temporary: &'a Path,
}

/// A guard and the server under it, which end soon after this is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    /// `None` once it has been waited for. Its standard input is the pipe that the watchers read. Nothing is written, and
    /// the close is the signal to stop. It is close-on-exec, so that no other child of this process holds it open.
    child: Option<Child>,
}

/// The result of a launch.
#[derive(Debug)]
pub(super) enum Launched {
    /// There is a cluster, and the server was started.
    Started(Launch),
    /// The guard ended before that, with this output.
    Ended { complaint: String },
}

/// A server that was started, and may not accept connections yet.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) guard: Guard,
    pub(super) home: PathBuf,
    /// The postmaster's process number.
    pub(super) server: String,
    output: BufReader<ChildStdout>,
}

impl Guard {
    /// Starts the guard, which makes a home and a cluster and starts the server in it.
    pub(super) fn launch(user: ServerUser, orders: &Orders<'_>) -> Result<Launched> {
        let failed =
            |source| failure_from("cannot run the shell: /bin/sh", "check that the server's user can run it")(source);
        let mut child = user
            .command("/bin/sh")
            .args(["-c", SCRIPT, "guard"])
            .args([orders.temporary, orders.data_dir.unwrap_or(Path::new("")), orders.binaries])
            .args([orders.stop_signal, orders.sync])
            .args(orders.settings.iter().flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let output = child.stdout.take();
        let guard = Self { child: Some(child) };
        match output {
            Some(output) => guard.read_until_server(BufReader::new(output)).map_err(failed),
            None => Ok(Launched::Ended { complaint: String::new() }),
        }
    }

    fn read_until_server(self, mut output: BufReader<ChildStdout>) -> io::Result<Launched> {
        let mut home = PathBuf::new();
        let mut complaint = String::new();
        let mut line = String::new();
        while output.read_line(&mut line)? != 0 {
            match line.trim_end().split_once(' ') {
                Some(("home", path)) => home = PathBuf::from(path),
                Some(("initdb", _)) => {}
                Some(("server", process)) => {
                    let server = process.to_owned();
                    return Ok(Launched::Started(Launch { guard: self, home, server, output }));
                }
                _ => complaint.push_str(&line),
            }
            line.clear();
        }
        Ok(Launched::Ended { complaint })
    }

    /// Stops the server and waits for its end.
    pub(super) fn stop(mut self) -> Result<()> {
        let hint = "look into server.log in its data directory, if that is kept";
        let Some(mut child) = self.child.take() else { return Ok(()) };
        // This closes the pipe first.
        let status = child.wait().map_err(failure_from("cannot wait for the server's end", hint))?;
        if status.success() { Ok(()) } else { Err(failure(format!("the server did not stop cleanly: {status}"), hint)) }
    }
}

impl Launch {
    /// The server's output, if it has ended already.
    pub(super) fn complaint(&mut self) -> io::Result<Option<String>> {
        let Some(child) = &mut self.guard.child else { return Ok(None) };
        if child.try_wait()?.is_none() {
            return Ok(None);
        }
        let mut complaint = String::new();
        self.output.read_to_string(&mut complaint)?;
        Ok(Some(complaint))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            // The thread takes the exit status: else a dead guard would stay in the process table until this process
            // ends. Without a thread nothing else is lost.
            let _ = thread::Builder::new().name("uniqueue-postgres".into()).spawn(move || child.wait());
        }
    }
}
