//! The job: it reads a file, and stores the result in the transaction that completes it.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use uniqueue::{BoxError, Job, RetryPolicy, RunningJob, Worker};

use super::files::FoundFile;
use crate::percent;

/// A file to read. An active job with the same path and size is the same job.
#[derive(Debug, Deserialize, Job, Serialize)]
#[job(kind = "demo.file", queue = "demo", max_attempts = 3, unique(scope = "active"))]
pub(super) struct HashFile {
    /// The path, as [`percent`] writes it.
    #[job(unique)]
    path: String,
    #[job(unique)]
    size: u64,
}

impl HashFile {
    pub(super) fn of(file: &FoundFile) -> Self {
        Self { path: file.path.clone(), size: file.size }
    }
}

/// Works [`HashFile`] jobs.
pub(super) struct HashFiles(pub(super) PgPool);

impl Worker<HashFile> for HashFiles {
    async fn work(&self, job: RunningJob<HashFile>) -> Result<uniqueue::Outcome, BoxError> {
        let path = percent::decode(&job.args.path);
        // Reading blocks, so it has a thread of its own.
        let checksum = tokio::task::spawn_blocking(move || Checksum::of_file(Path::new(&path))).await??;
        let mut tx = self.0.begin().await?;
        // This comes first, because it locks the job. A newer attempt waits here, and then finds its result stale.
        job.complete_in(&mut tx).await?;
        sqlx::query("INSERT INTO uniqueue_demo.checksum (job_id, sha256, lines, bytes) VALUES ($1, $2, $3, $4)")
            .bind(job.id().as_uuid())
            .bind(checksum.sha256)
            .bind(checksum.lines)
            .bind(checksum.bytes)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(().into())
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        Some(RetryPolicy::fixed(Duration::from_millis(200)))
    }
}

/// The facts about a file's content.
#[derive(Debug, Eq, PartialEq)]
struct Checksum {
    sha256: Vec<u8>,
    /// The number of newlines, plus one if text follows the last.
    lines: i64,
    bytes: i64,
}

impl Checksum {
    fn of_file(path: &Path) -> io::Result<Self> {
        // A pipe may have replaced the file, and opening a pipe would wait for a writer.
        if !path.symlink_metadata()?.is_file() {
            return Err(io::Error::other("no longer a regular file"));
        }
        Self::read(BufReader::with_capacity(64 * 1024, File::open(path)?))
    }

    fn read(mut content: impl BufRead) -> io::Result<Self> {
        let mut sha256 = Sha256::new();
        let (mut newlines, mut bytes, mut last) = (0, 0, b'\n');
        loop {
            let read = match content.fill_buf() {
                Ok(&[]) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            sha256.update(read);
            newlines += read.iter().filter(|byte| **byte == b'\n').count() as i64;
            (bytes, last) = (bytes + read.len() as i64, read[read.len() - 1]);
            let length = read.len();
            content.consume(length);
        }
        Ok(Self { sha256: sha256.finalize().to_vec(), lines: newlines + i64::from(last != b'\n'), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_with_or_without_the_last_newline() {
        let long = [b"x\n".repeat(64 * 1024), b"y".to_vec()].concat();
        for (content, lines) in [
            (b"".as_slice(), 0),
            (b"a", 1),
            (b"a\n", 1),
            (b"a\nb", 2),
            (b"\n\n", 2),
            (b"a\r\nb\r\n", 2),
            (&long, 64 * 1024 + 1),
        ] {
            let checksum = Checksum::read(BufReader::new(content)).unwrap();
            assert_eq!((checksum.lines, checksum.bytes), (lines, content.len() as i64));
            assert_eq!(checksum.sha256, Sha256::digest(content).to_vec());
        }
    }
}
