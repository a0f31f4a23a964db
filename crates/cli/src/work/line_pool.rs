//! Long-lived processes, each fed with one job after another: a line in, a line out.
//!
//! A process is idle or has one job. One that ends, or whose job is stopped or dropped, is not used again.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use uniqueue::{AnyJob, BoxError, Outcome};

use super::answer;
use super::last_line::LONGEST;
use super::process::Process;

/// The processes that have no job.
#[derive(Default)]
pub(super) struct LinePool {
    idle: Mutex<Vec<LineProcess>>,
}

struct LineProcess {
    process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl LinePool {
    /// Runs one job with an idle process, or with a new one.
    pub(super) async fn run(
        &self,
        program: &[OsString],
        grace: Duration,
        job: &AnyJob,
        line: &[u8],
    ) -> Result<Outcome, BoxError> {
        let idle = self.idle().pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => LineProcess::start(program)?,
        };
        worker.process.clear_tail();
        let answer = tokio::select! {
            answer = worker.exchange(line) => answer?,
            _ = job.stopped() => {
                let status = worker.process.stop(grace).await?;
                return Err(worker.process.failure(status).await);
            }
        };
        match answer {
            Some(answer) => {
                self.idle().push(worker);
                answer::outcome(answer)
            }
            None => {
                let status = worker.process.stop(grace).await?;
                Err(worker.process.failure(status).await)
            }
        }
    }

    /// Lets the processes end: the end of their input tells them to.
    pub(super) async fn end(&self, grace: Duration) {
        let idle = std::mem::take(&mut *self.idle());
        let ending: Vec<_> = idle
            .into_iter()
            .map(|worker| {
                let LineProcess { mut process, stdin, stdout: _stdout } = worker;
                drop(stdin);
                tokio::spawn(async move {
                    if tokio::time::timeout(grace, process.wait()).await.is_err() {
                        let _ = process.stop(grace).await;
                    }
                })
            })
            .collect();
        for ended in ending {
            let _ = ended.await;
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<LineProcess>> {
        // Nothing panics while it holds the lock.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineProcess {
    fn start(program: &[OsString]) -> Result<Self, BoxError> {
        let (process, stdin, stdout) = Process::start(program, &[])?;
        Ok(Self { process, stdin, stdout: BufReader::new(stdout) })
    }

    /// Sends a job, and reads the line that answers it. `None`: the process closed its input or output.
    async fn exchange(&mut self, line: &[u8]) -> Result<Option<Value>, BoxError> {
        let sent = async {
            self.stdin.write_all(line).await?;
            self.stdin.flush().await
        };
        if sent.await.is_err() {
            return Ok(None);
        }
        let mut answer = Vec::new();
        // One byte more than the longest tells that it was cut.
        (&mut self.stdout).take(LONGEST as u64 + 1).read_until(b'\n', &mut answer).await?;
        if answer.last() != Some(&b'\n') && answer.len() <= LONGEST {
            return Ok(None);
        }
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(200)]).trim_end().to_owned();
        let read = serde_json::from_slice(&answer);
        read.map(Some).map_err(|_| format!("the program's answer is not a line of JSON: {shown}").into())
    }
}
