//! The job: it reads a file, and stores the result in the transaction that completes it.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use uniqueue::{BoxError, Job, RetryPolicy, RunningJob, Worker};

use crate::percent;

/// A file to read. An active job with the same path and size is the same job.
#[derive(Clone, Debug, Deserialize, Eq, Job, Ord, PartialEq, PartialOrd, Serialize)]
#[job(kind = "demo.file", queue = "demo", max_attempts = 3, unique(scope = "active"))]
pub(super) struct HashFile {
    /// The absolute path, as [`percent`] writes it.
    #[job(unique)]
    pub(super) path: String,
    /// Its size in bytes when it was found.
    #[job(unique)]
    pub(super) size: u64,
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
            .bind(checksum.sha256.clone().finalize().to_vec())
            .bind(checksum.lines())
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

/// The facts about a file's content, to which it is written.
#[derive(Default)]
struct Checksum {
    sha256: Sha256,
    newlines: i64,
    bytes: i64,
    last: Option<u8>,
}

impl Checksum {
    fn of_file(path: &Path) -> io::Result<Self> {
        // A pipe may have replaced the file, and opening a pipe would wait for a writer.
        if !path.symlink_metadata()?.is_file() {
            return Err(io::Error::other("no longer a regular file"));
        }
        let mut checksum = Self::default();
        io::copy(&mut BufReader::with_capacity(64 * 1024, File::open(path)?), &mut checksum)?;
        Ok(checksum)
    }

    /// The number of newlines, plus one if text follows the last.
    fn lines(&self) -> i64 {
        self.newlines + i64::from(self.last.is_some_and(|last| last != b'\n'))
    }
}

impl Write for Checksum {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.sha256.update(content);
        self.newlines += content.iter().filter(|byte| **byte == b'\n').count() as i64;
        self.bytes += content.len() as i64;
        self.last = content.last().copied().or(self.last);
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
            let mut checksum = Checksum::default();
            content.chunks(1_000).for_each(|part| checksum.write_all(part).unwrap());
            assert_eq!((checksum.lines(), checksum.bytes), (lines, content.len() as i64));
            assert_eq!(checksum.sha256.finalize(), Sha256::digest(content));
        }
    }
}
