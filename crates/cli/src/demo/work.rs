//! The job: it reads a file, and stores the result in the transaction that completes it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use uniqueue::{BoxError, Job, Outcome, RetryPolicy, RunningJob, Worker};

use super::path_text;
use super::progress::Progress;
use super::tables::Tables;

/// The size of the read buffer, which is all the memory that a file takes.
const BUFFER_SIZE: usize = 64 * 1024;

/// A file to read. An active job with the same path and size is the same job.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "demo.file", queue = "demo", max_attempts = 3, unique(scope = "active"))]
pub(super) struct HashFile {
    /// The path, as [`path_text`] writes it.
    #[job(unique)]
    pub(super) path: String,
    #[job(unique)]
    pub(super) size: u64,
}

/// Works [`HashFile`] jobs.
pub(super) struct HashFiles {
    pub(super) pool: PgPool,
    pub(super) progress: Arc<Progress>,
}

impl Worker<HashFile> for HashFiles {
    async fn work(&self, job: RunningJob<HashFile>) -> Result<Outcome, BoxError> {
        let worked = self.hash(&job).await;
        let was_last_attempt = worked.is_ok() || job.attempt() >= job.row().max_attempts;
        if was_last_attempt {
            self.progress.advance();
        }
        worked.map(Outcome::from)
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        Some(RetryPolicy::fixed(Duration::from_millis(200)))
    }
}

impl HashFiles {
    async fn hash(&self, job: &RunningJob<HashFile>) -> Result<(), BoxError> {
        let path = path_text::decode(&job.args.path).ok_or("the path is not as the demo writes it")?;
        // Reading blocks, so it has a thread of its own. If the runner drops this attempt, the thread sees it and stops.
        let attempt = Arc::new(());
        let alive = Arc::downgrade(&attempt);
        let checksum = tokio::task::spawn_blocking(move || Checksum::of_file(&path, &alive)).await??;
        drop(attempt);

        let mut tx = self.pool.begin().await?;
        // This comes first, because it locks the job. A newer attempt waits here, and then finds its result stale.
        job.complete_in(&mut tx).await?;
        Tables::add_checksum(&mut tx, job.id(), &checksum.sha256, checksum.lines, checksum.bytes).await?;
        tx.commit().await?;
        Ok(())
    }
}

/// The facts about a file's content.
#[derive(Debug, Eq, PartialEq)]
struct Checksum {
    sha256: Vec<u8>,
    /// The number of newlines, plus one if text follows the last.
    lines: u64,
    bytes: u64,
}

impl Checksum {
    fn of_file(path: &Path, alive: &Weak<()>) -> io::Result<Self> {
        // A pipe may have replaced the file, and opening a pipe would wait for a writer.
        if !path.symlink_metadata()?.is_file() {
            return Err(io::Error::other("no longer a regular file"));
        }
        Self::read(File::open(path)?, alive)
    }

    fn read(mut content: impl Read, alive: &Weak<()>) -> io::Result<Self> {
        let mut buffer = vec![0; BUFFER_SIZE];
        let mut sha256 = Sha256::new();
        let (mut newlines, mut bytes, mut last) = (0, 0, b'\n');
        loop {
            let read = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => &buffer[..read],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if alive.strong_count() == 0 {
                return Err(io::Error::other("stopped"));
            }
            sha256.update(read);
            newlines += read.iter().filter(|byte| **byte == b'\n').count() as u64;
            bytes += read.len() as u64;
            last = read[read.len() - 1];
        }
        Ok(Self { sha256: sha256.finalize().to_vec(), lines: newlines + u64::from(last != b'\n'), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_with_or_without_the_last_newline() {
        let alive = Arc::new(());
        let long = [b"x\n".repeat(BUFFER_SIZE), b"y".to_vec()].concat();
        for (content, lines) in [
            (b"".as_slice(), 0),
            (b"a", 1),
            (b"a\n", 1),
            (b"a\nb", 2),
            (b"\n\n", 2),
            (b"a\r\nb\r\n", 2),
            (&long, BUFFER_SIZE as u64 + 1),
        ] {
            let checksum = Checksum::read(content, &Arc::downgrade(&alive)).unwrap();
            assert_eq!((checksum.lines, checksum.bytes), (lines, content.len() as u64));
            assert_eq!(checksum.sha256, Sha256::digest(content).to_vec());
        }
    }

    #[test]
    fn reading_stops_with_its_attempt() {
        let gone = Arc::downgrade(&Arc::new(()));
        assert_eq!(Checksum::read(io::repeat(b'x'), &gone).unwrap_err().to_string(), "stopped");
    }
}
