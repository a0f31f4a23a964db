//! The inserts: once with the application's rows, and once more as duplicates.

use std::time::Instant;

use sqlx::PgConnection;
use uniqueue::{Client, Inserted, JobFilter, JobState};
use uuid::Uuid;

use super::report::{Example, Report, Seconds};
use super::work::HashFile;
use crate::exit::Failure;

/// The number of jobs in one statement.
const BATCH_SIZE: usize = 5_000;

/// Inserts a job for each file in the application's transaction, which stores its rows and their jobs together. Then inserts
/// all of them again.
pub(super) async fn insert_twice(client: &Client, files: &[HashFile], report: &mut Report) -> Result<(), Failure> {
    let Report { database, inserts, seconds, .. } = report;
    let (begun_at, mut first) = (Instant::now(), Vec::with_capacity(files.len()));
    let mut tx = client.pool().begin().await?;
    for files in files.chunks(BATCH_SIZE) {
        let inserted = client.insert_many(files.iter().cloned()).tx(&mut tx).await?;
        add_files(&mut tx, database.run, files, &inserted).await?;
        first.extend(inserted.iter().map(|one| (one.id(), one.duplicate)));
    }
    tx.commit().await?;
    seconds.insert = Seconds::since(begun_at);
    inserts.adopted = first.iter().filter(|(_, adopted)| *adopted).count() as u64;
    inserts.inserted = first.len() as u64 - inserts.adopted;

    let before = waiting(client).await?;
    let begun_at = Instant::now();
    for (files, first) in files.chunks(BATCH_SIZE).zip(first.chunks(BATCH_SIZE)) {
        let again = client.insert_many(files.iter().cloned()).await?;
        for ((file, answer), (id, _)) in files.iter().zip(&again).zip(first) {
            inserts.duplicates += u64::from(answer.duplicate && answer.id() == *id);
            if inserts.duplicate_example.is_none() {
                let example = |duplicate| Example { path: file.path.clone(), duplicate };
                inserts.duplicate_example = answer.duplicate_of().map(example);
            }
        }
    }
    seconds.insert_again = Seconds::since(begun_at);
    inserts.stored_twice = waiting(client).await?.abs_diff(before);
    Ok(())
}

/// Records files, each with its job and whether the job existed before.
async fn add_files(
    connection: &mut PgConnection,
    run: Uuid,
    files: &[HashFile],
    jobs: &[Inserted],
) -> Result<(), Failure> {
    let (ids, adopted): (Vec<_>, Vec<_>) = jobs.iter().map(|job| (job.id().as_uuid(), job.duplicate)).unzip();
    let (paths, sizes): (Vec<_>, Vec<_>) = files.iter().map(|file| (&*file.path, file.size.cast_signed())).unzip();
    let insert = "INSERT INTO uniqueue_demo.file (run_id, job_id, path, size, adopted)
        SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::boolean[])";
    let insert = sqlx::query(insert).bind(run).bind(ids).bind(paths).bind(sizes).bind(adopted);
    insert.execute(connection).await?;
    Ok(())
}

/// Counts the jobs that wait in the demo's queue.
async fn waiting(client: &Client) -> Result<u64, Failure> {
    let waiting = JobFilter::new().queue("demo").states(JobState::Available);
    Ok(client.count_jobs(waiting, u32::MAX).await?.counted())
}
