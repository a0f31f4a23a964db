//! Long-lived processes, each fed with one job after another: a line in, a line out.
//!
//! A process is idle or has one job. One that ends, or whose job is stopped or dropped, is not used again. Nor is one that
//! writes while it is idle, since nothing tells what it is doing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::ioctl_fionread;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinSet;
use uniqueue::{AnyJob, BoxError, Outcome};

use super::answer;
use super::process::{Process, Program};
use super::program::LONGEST;
use crate::prelude::*;

/// The processes that have no job.
#[derive(Default)]
pub(super) struct LinePool {
    idle: Mutex<Vec<LineProcess>>,
    /// The ends of those that are not used again, which no job waits for.
    ending: Mutex<JoinSet<()>>,
}

struct LineProcess {
    process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl LinePool {
    /// Runs one job with an idle process, or with a new one.
    pub(super) async fn run(&self, program: &Program, job: &AnyJob, line: &[u8]) -> Result<Outcome, BoxError> {
        let mut worker = self.silent(program).await?;
        worker.process.clear_tail();
        let id = job.id().to_string();
        let (answer, stopped) = tokio::select! {
            answer = worker.exchange(&id, line) => (answer?, None),
            reason = job.stopped() => (None, Some(reason)),
        };
        match answer {
            Some(answer) => {
                self.idle().push(worker);
                answer::outcome(answer)
            }
            None => {
                let status = worker.process.stop(program.grace).await?;
                Err(worker.process.failure(status, stopped).await)
            }
        }
    }

    /// An idle process that has written nothing since its last answer, or a new one.
    async fn silent(&self, program: &Program) -> Result<LineProcess, BoxError> {
        loop {
            let idle = self.idle().pop();
            match idle {
                None => return LineProcess::start(program),
                Some(worker) if worker.is_silent() => return Ok(worker),
                Some(worker) => {
                    tracing::warn!("a process wrote to its output while it had no job, and is ended");
                    self.ending().spawn(worker.end(program.grace));
                }
            }
        }
    }

    /// Lets the processes end.
    pub(super) async fn end(&self, grace: Duration) {
        let mut ending = std::mem::take(&mut *self.ending());
        for worker in std::mem::take(&mut *self.idle()) {
            ending.spawn(worker.end(grace));
        }
        while ending.join_next().await.is_some() {}
    }

    /// The ends that are under way.
    fn ending(&self) -> MutexGuard<'_, JoinSet<()>> {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        while ending.try_join_next().is_some() {}
        ending
    }

    fn idle(&self) -> MutexGuard<'_, Vec<LineProcess>> {
        // Nothing panics while it holds the lock.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineProcess {
    fn start(program: &Program) -> Result<Self, BoxError> {
        let (process, stdin, stdout) = program.start(&[])?;
        Ok(Self { process, stdin, stdout: BufReader::new(stdout) })
    }

    /// Whether it has written nothing that was not read.
    fn is_silent(&self) -> bool {
        self.stdout.buffer().is_empty() && ioctl_fionread(self.stdout.get_ref()).unwrap_or_default() == 0
    }

    /// Lets it end: the end of its input tells it to. What it still writes is passed on.
    async fn end(self, grace: Duration) {
        let Self { mut process, stdin, mut stdout } = self;
        drop(stdin);
        let mut rest = Vec::new();
        let ending = async {
            let _ = (&mut stdout).take(LONGEST as u64).read_to_end(&mut rest).await;
            process.wait().await
        };
        let has_ended = tokio::time::timeout(grace, ending).await.is_ok();
        process.pass_on(&rest).await;
        if !has_ended {
            let _ = process.stop(grace).await;
        }
    }

    /// Sends a job, and reads lines until one answers it. `None`: the process closed its input or output.
    async fn exchange(&mut self, id: &str, line: &[u8]) -> Result<Option<Value>, BoxError> {
        let sent = async {
            self.stdin.write_all(line).await?;
            self.stdin.flush().await
        };
        if sent.await.is_err() {
            return Ok(None);
        }
        loop {
            let mut said = Vec::new();
            // One byte more than the longest tells that it was cut.
            (&mut self.stdout).take(LONGEST as u64 + 1).read_until(b'\n', &mut said).await?;
            if said.last() != Some(&b'\n') && said.len() <= LONGEST {
                self.process.pass_on(&said).await;
                return Ok(None);
            }
            match answer::to_job(id, &said)? {
                Some(answer) => return Ok(Some(answer)),
                None => self.process.pass_on(&said).await,
            }
        }
    }
}
