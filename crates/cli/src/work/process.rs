//! The program, a process of it in a process group of its own, and the end of its processes after a death of this command
//! that it cannot see coming, such as SIGKILL.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use uniqueue::{BoxError, JobError, StopReason};

/// How much of the end of standard error is kept for the job's error.
const TAIL: usize = 4_096;

/// How long the output of a process that has ended is still read: a child of its own may hold it open.
pub(super) const REST: Duration = Duration::from_millis(200);

/// The code of a job that took too long, as the runner has it. The program's own end is that of the signals it was sent.
const TIMED_OUT: &str = "timed_out";

/// The program that is started for jobs.
pub(super) struct Program {
    /// Its path or name, and its arguments.
    words: Vec<OsString>,
    /// The time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    guard: Arc<Guard>,
}

/// A running process. Dropped, it is killed with its group.
pub(super) struct Process {
    child: Child,
    guard: Arc<Guard>,
    /// `None`: it has ended, and its id may be another process's.
    group: Option<Pid>,
    tail: Arc<Mutex<Vec<u8>>>,
    passing_on: Option<JoinHandle<()>>,
}

impl Program {
    pub(super) fn new(words: Vec<OsString>, grace: Duration) -> Self {
        Self { words, grace, guard: Arc::new(Guard::start(grace)) }
    }

    /// Starts a process. Returns its input and output as well.
    pub(super) fn start(&self, variables: &[(&str, String)]) -> Result<(Process, ChildStdin, ChildStdout), BoxError> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", Path::new(&self.words[0]).display()))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            self.guard.add(group);
        }
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("the process has no standard input, output or error".into());
        };
        let tail = Arc::new(Mutex::new(Vec::new()));
        let passing_on = Some(tokio::spawn(pass_on_all(stderr, Arc::clone(&tail))));
        Ok((Process { child, guard: Arc::clone(&self.guard), group, tail, passing_on }, stdin, stdout))
    }
}

impl Process {
    /// Waits for its end.
    pub(super) async fn wait(&mut self) -> Result<ExitStatus, BoxError> {
        let status = self.child.wait().await?;
        if let Some(group) = self.group.take() {
            self.guard.remove(group);
        }
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

    /// Passes a part of its output on as standard error.
    pub(super) async fn pass_on(&self, piece: &[u8]) {
        pass_on(piece, &self.tail).await;
    }

    /// Forgets what it has passed on so far.
    pub(super) fn clear_tail(&self) {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Why the attempt failed: how the process ended, and the end of its standard error. `stopped`: why it had to end.
    pub(super) async fn failure(&mut self, status: ExitStatus, stopped: Option<StopReason>) -> BoxError {
        if let Some(passing_on) = self.passing_on.take() {
            let _ = tokio::time::timeout(REST, passing_on).await;
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(tail.trim_ascii());
        let text = match said.is_empty() {
            true => status.to_string(),
            false => format!("{status}: {said}"),
        };
        let code = match (stopped, status.code(), status.signal()) {
            (Some(StopReason::TimedOut), ..) => TIMED_OUT.to_owned(),
            (_, Some(status), _) => format!("exit_{status}"),
            (.., signal) => format!("signal_{}", signal.unwrap_or_default()),
        };
        JobError::new(text).code(code).into()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        if let Some(group) = self.group.take() {
            self.guard.remove(group);
        }
    }
}

/// A shell that ends process groups once its standard input closes. It has a group of its own, which no Ctrl-C reaches.
struct Guard {
    /// `None`: there is no shell.
    shell: Option<Mutex<std::process::Child>>,
}

impl Guard {
    /// `grace`: the time between SIGTERM and SIGKILL.
    fn start(grace: Duration) -> Self {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", include_str!("guard.sh"), "guard", &grace.as_secs_f64().ceil().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        match command.spawn() {
            Ok(shell) => Self { shell: Some(Mutex::new(shell)) },
            Err(error) => {
                tracing::warn!(%error, "cannot start /bin/sh: if this command is killed, its program goes on");
                Self { shell: None }
            }
        }
    }

    /// Ends this group as well.
    fn add(&self, group: Pid) {
        self.tell('+', group);
    }

    /// Leaves this group alone, which has ended.
    fn remove(&self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&self, sign: char, group: Pid) {
        let Some(shell) = &self.shell else { return };
        // Nothing panics while it holds the lock.
        let mut shell = shell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(input) = &mut shell.stdin {
            // Where the shell was killed, the program still works.
            let _ = input.write_all(format!("{sign} {}\n", group.as_raw_nonzero()).as_bytes());
        }
    }
}

/// Passes standard error on, and keeps its end.
async fn pass_on_all(mut stderr: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; 8_192];
    while let Ok(length @ 1..) = stderr.read(&mut piece).await {
        pass_on(&piece[..length], &tail).await;
    }
}

async fn pass_on(piece: &[u8], tail: &Mutex<Vec<u8>>) {
    {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(piece);
        let beyond = tail.len().saturating_sub(TAIL);
        tail.drain(..beyond);
    }
    // A closed standard error of this command must not stop the program. Without the flush the next piece could come first.
    let mut stderr = tokio::io::stderr();
    if stderr.write_all(piece).await.is_ok() {
        let _ = stderr.flush().await;
    }
}
