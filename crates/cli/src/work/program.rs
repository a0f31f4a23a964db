//! One process for each job.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use uniqueue::{AnyJob, BoxError, Outcome};

use super::answer;
use super::last_line::LastLine;
use super::process::{Program, REST};

/// Runs the program for one job.
pub(super) async fn run(program: &Program, job: &AnyJob, line: Vec<u8>) -> Result<Outcome, BoxError> {
    let variables = [
        ("UNIQUEUE_JOB_ID", job.id().to_string()),
        ("UNIQUEUE_JOB_KIND", job.kind().to_string()),
        ("UNIQUEUE_JOB_QUEUE", job.queue().to_string()),
        ("UNIQUEUE_JOB_ATTEMPT", job.attempt().to_string()),
    ];
    let (mut process, stdin, stdout) = program.start(&variables)?;
    let said = Arc::new(Mutex::new(LastLine::default()));
    // At once: a program may write much before it reads, and need not read at all.
    tokio::spawn(write(stdin, line));
    let reading = tokio::spawn(read(stdout, Arc::clone(&said)));
    let (status, stopped) = tokio::select! {
        status = process.wait() => (status?, None),
        reason = job.stopped() => (process.stop(program.grace).await?, Some(reason)),
    };
    let _ = tokio::time::timeout(REST, reading).await;
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).json();
    if status.success() {
        return answer::outcome(said.unwrap_or_default());
    }
    match answer::of_failed(said) {
        Some(error) => Err(error),
        None => Err(process.failure(status, stopped).await),
    }
}

async fn write(mut stdin: ChildStdin, line: Vec<u8>) {
    let _ = stdin.write_all(&line).await;
}

async fn read(mut stdout: ChildStdout, said: Arc<Mutex<LastLine>>) {
    let mut piece = vec![0; 8_192];
    while let Ok(length @ 1..) = stdout.read(&mut piece).await {
        said.lock().unwrap_or_else(PoisonError::into_inner).push(&piece[..length]);
    }
}
