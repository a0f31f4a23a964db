//! A process of the program, in a process group of its own.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use uniqueue::{BoxError, JobError};

/// How much of the end of standard error is kept for the job's error.
const TAIL: usize = 4_096;

/// How long the output of a process that has ended is still read: a child of its own may hold it open.
pub(super) const REST: Duration = Duration::from_millis(200);

/// A running process. Dropped, it is killed with its group.
pub(super) struct Process {
    child: Child,
    /// `None`: it has ended, and its id may be another process's.
    group: Option<Pid>,
    tail: Arc<Mutex<Vec<u8>>>,
    passing_on: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts the program. Returns its input and output as well.
    pub(super) fn start(
        program: &[OsString],
        variables: &[(&str, String)],
    ) -> Result<(Self, ChildStdin, ChildStdout), BoxError> {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut child =
            command.spawn().map_err(|error| format!("cannot start {}: {error}", Path::new(&program[0]).display()))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("the process has no standard input, output or error".into());
        };
        let tail = Arc::new(Mutex::new(Vec::new()));
        let passing_on = Some(tokio::spawn(pass_on(stderr, Arc::clone(&tail))));
        Ok((Self { child, group, tail, passing_on }, stdin, stdout))
    }

    /// Waits for its end.
    pub(super) async fn wait(&mut self) -> Result<ExitStatus, BoxError> {
        let status = self.child.wait().await?;
        self.group = None;
        Ok(status)
    }

    /// Stops it: SIGTERM, and after the grace SIGKILL.
    pub(super) async fn stop(&mut self, grace: Duration) -> Result<ExitStatus, BoxError> {
        self.signal(Signal::TERM);
        if let Ok(ended) = tokio::time::timeout(grace, self.wait()).await {
            return ended;
        }
        self.signal(Signal::KILL);
        self.wait().await
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It may have ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Forgets what it has written to standard error so far.
    pub(super) fn clear_tail(&self) {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Why the attempt failed: how the process ended, and the end of its standard error.
    pub(super) async fn failure(&mut self, status: ExitStatus) -> BoxError {
        if let Some(passing_on) = self.passing_on.take() {
            let _ = tokio::time::timeout(REST, passing_on).await;
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(tail.trim_ascii());
        let text = match said.is_empty() {
            true => status.to_string(),
            false => format!("{status}: {said}"),
        };
        let code = match (status.code(), status.signal()) {
            (Some(status), _) => format!("exit_{status}"),
            (None, signal) => format!("signal_{}", signal.unwrap_or_default()),
        };
        JobError::new(text).code(code).into()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Passes standard error on, and keeps its end.
async fn pass_on(mut stderr: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; 8_192];
    let mut own = tokio::io::stderr();
    while let Ok(length @ 1..) = stderr.read(&mut piece).await {
        {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend_from_slice(&piece[..length]);
            let beyond = tail.len().saturating_sub(TAIL);
            tail.drain(..beyond);
        }
        // A closed standard error of this command must not stop the program.
        let _ = own.write_all(&piece[..length]).await;
    }
}
