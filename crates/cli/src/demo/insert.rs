//! The inserts: once with the application's rows, and once more as duplicates.

use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use uniqueue::{Client, JobId};

use super::files::{FoundFile, FoundFiles};
use super::tables::Tables;
use super::work::HashFile;
use crate::failure::Failure;

/// The number of jobs in one statement.
const BATCH_SIZE: usize = 5_000;

/// The outcome of the inserts.
#[derive(Debug)]
pub(super) struct Inserts {
    /// New jobs.
    pub(super) inserted: u64,
    /// Files whose job an interrupted run had left in the queue.
    pub(super) adopted: u64,
    pub(super) insert_time: Duration,
    /// Second inserts that returned the job of the first.
    pub(super) duplicates: u64,
    /// Jobs that the second insert stored by mistake.
    pub(super) stored_twice: u64,
    pub(super) duplicate_time: Duration,
}

/// Inserts a job for each file, and then all of them again.
pub(super) async fn insert_twice(
    client: &Client,
    connection: &mut PgConnection,
    tables: &Tables,
    found: &FoundFiles,
) -> Result<Inserts, Failure> {
    let begun_at = Instant::now();
    let jobs = insert_with_rows(client, connection, tables, found).await?;
    let insert_time = begun_at.elapsed();
    let adopted = jobs.iter().filter(|(_, adopted)| *adopted).count() as u64;

    let waiting = tables.waiting(connection).await?;
    let begun_at = Instant::now();
    let duplicates = insert_again(client, &found.files, &jobs).await?;
    let duplicate_time = begun_at.elapsed();
    let stored_twice = tables.waiting(connection).await?.abs_diff(waiting);
    Ok(Inserts {
        inserted: jobs.len() as u64 - adopted,
        adopted,
        insert_time,
        duplicates,
        stored_twice,
        duplicate_time,
    })
}

/// The application's transaction, which stores its rows and their jobs together.
async fn insert_with_rows(
    client: &Client,
    connection: &mut PgConnection,
    tables: &Tables,
    found: &FoundFiles,
) -> Result<Vec<(JobId, bool)>, Failure> {
    let mut tx = connection.begin().await?;
    tables.add_run(&mut tx, &found.root).await?;
    let mut all = Vec::with_capacity(found.files.len());
    for files in found.files.chunks(BATCH_SIZE) {
        let inserted = client.insert_many(files.iter().map(job)).tx(&mut tx).await?;
        let jobs: Vec<_> = inserted.iter().map(|one| (one.id(), one.duplicate)).collect();
        tables.add_files(&mut tx, files, &jobs).await?;
        all.extend(jobs);
    }
    tx.commit().await?;
    Ok(all)
}

/// Inserts all jobs again, and counts the answers with the right job.
async fn insert_again(client: &Client, files: &[FoundFile], jobs: &[(JobId, bool)]) -> Result<u64, Failure> {
    let mut duplicates = 0;
    for (files, jobs) in files.chunks(BATCH_SIZE).zip(jobs.chunks(BATCH_SIZE)) {
        let answers = client.insert_many(files.iter().map(job)).await?;
        let is_right =
            |(answer, (id, _)): &(uniqueue::Inserted, &(JobId, bool))| answer.duplicate && answer.id() == *id;
        duplicates += answers.into_iter().zip(jobs).filter(is_right).count() as u64;
    }
    Ok(duplicates)
}

fn job(file: &FoundFile) -> HashFile {
    HashFile { path: file.path.clone(), size: file.size }
}
