//! The inserts: once with the application's rows, and once more as duplicates.

use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::{Connection, PgConnection};
use uniqueue::{Client, Duplicate, JobId};

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
    /// The first of them: its path, and the job that holds its key.
    pub(super) example: Option<Example>,
    /// Jobs that the second insert stored by mistake.
    pub(super) stored_twice: u64,
    pub(super) duplicate_time: Duration,
}

/// A duplicate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Example {
    pub(super) path: String,
    /// The job that holds its key.
    #[serde(flatten)]
    pub(super) duplicate: Duplicate,
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
    let (duplicates, example) = insert_again(client, &found.files, &jobs).await?;
    let duplicate_time = begun_at.elapsed();
    let stored_twice = tables.waiting(connection).await?.abs_diff(waiting);
    Ok(Inserts {
        inserted: jobs.len() as u64 - adopted,
        adopted,
        insert_time,
        duplicates,
        example,
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

/// Inserts all jobs again, and counts the answers with the right job. Returns the first of them as well.
async fn insert_again(
    client: &Client,
    files: &[FoundFile],
    jobs: &[(JobId, bool)],
) -> Result<(u64, Option<Example>), Failure> {
    let (mut duplicates, mut example) = (0, None);
    for (files, jobs) in files.chunks(BATCH_SIZE).zip(jobs.chunks(BATCH_SIZE)) {
        let answers = client.insert_many(files.iter().map(job)).await?;
        if example.is_none() {
            let first = files.iter().zip(&answers).next();
            example = first.and_then(|(file, answer)| {
                Some(Example { path: file.path.clone(), duplicate: answer.duplicate_of()? })
            });
        }
        let is_right =
            |(answer, (id, _)): &(uniqueue::Inserted, &(JobId, bool))| answer.duplicate && answer.id() == *id;
        duplicates += answers.into_iter().zip(jobs).filter(is_right).count() as u64;
    }
    Ok((duplicates, example))
}

fn job(file: &FoundFile) -> HashFile {
    HashFile { path: file.path.clone(), size: file.size }
}
