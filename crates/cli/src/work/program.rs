//! One process for each job, whose last line is the answer.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use uniqueue::{AnyJob, BoxError, Outcome};

use super::answer;
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

/// The longest line that is kept. A longer one is no answer.
pub(super) const LONGEST: usize = 16 << 20;

/// Takes text in pieces and keeps its last line that is not blank.
#[derive(Debug, Default)]
pub(super) struct LastLine {
    last: Vec<u8>,
    current: Vec<u8>,
}

impl LastLine {
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.extend(&piece[..end]);
            piece = &piece[end + 1..];
            if !self.current.trim_ascii().is_empty() {
                std::mem::swap(&mut self.last, &mut self.current);
            }
            self.current.clear();
        }
        self.extend(piece);
    }

    fn extend(&mut self, piece: &[u8]) {
        // One byte more than the longest tells that it was cut.
        let room = (LONGEST + 1).saturating_sub(self.current.len());
        self.current.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// The line as JSON. `None`: it is something else, or there is none.
    pub(super) fn json(&self) -> Option<Value> {
        let line = if self.current.trim_ascii().is_empty() { &self.last } else { &self.current };
        if line.len() > LONGEST { None } else { serde_json::from_slice(line).ok() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_line_that_is_not_blank_counts_however_it_arrives() {
        for (pieces, expected) in [
            (&["1\n2\n"][..], Some(json!(2))),
            (&["1\n{\"a\"", ":3}"][..], Some(json!({"a": 3}))),
            (&["4", "\n\n \n"][..], Some(json!(4))),
            (&["5\nsome text\n"][..], None),
            (&[""][..], None),
        ] {
            let mut last = LastLine::default();
            pieces.iter().for_each(|piece| last.push(piece.as_bytes()));
            assert_eq!(last.json(), expected, "{pieces:?}");
        }
    }
}
