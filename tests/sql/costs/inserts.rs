//! The cost of inserting a job, by each statement.

use support::prelude::*;

use super::{BATCH, Quiet, cost_of};

/// Jobs that are inserted one by one.
const SINGLES: i64 = 100;

/// How many jobs are there before.
const WARM_UP: i64 = 5 * BATCH;

/// What may be spent.
struct Bound {
    /// On all jobs.
    statements: u64,
    /// Rows, those that were taken back among them.
    rows: i64,
    /// Bytes a job.
    wal: i64,
}

/// Inserts jobs in some way, after so many others, and compares what it took.
async fn costs(others: i64, wanted: Bound, jobs: i64, insert: impl AsyncFnOnce(&Client)) {
    let quiet = Quiet::new().await;
    quiet.client.insert_many(Quiet::unique(1_000_000, others)).await.unwrap();
    let ((), wal, statements) = cost_of(jobs, insert(&quiet.client)).await;
    quiet.client.pool().close().await;
    let reading = quiet.reading(others + wanted.rows).await;
    assert_eq!((reading.inserted, reading.updated, reading.deleted), (others + wanted.rows, 0, 0));
    assert_eq!(statements, wanted.statements, "statements");
    assert!(wal <= wanted.wal, "{wal} bytes of WAL a job");
}

#[tokio::test]
async fn batch_of_plain_jobs_is_one_statement_and_one_row_each() {
    costs(WARM_UP, Bound { statements: 1, rows: BATCH, wal: 375 }, BATCH, async |client| {
        assert_eq!(client.insert_many(Quiet::jobs(BATCH)).await.unwrap().len() as i64, BATCH);
    })
    .await;
}

#[tokio::test]
async fn batch_of_unique_jobs_is_one_statement_and_one_row_each() {
    costs(0, Bound { statements: 1, rows: BATCH, wal: 700 }, BATCH, async |client| {
        let answers = client.insert_many(Quiet::unique(0, BATCH)).await.unwrap();
        assert!(answers.iter().all(|answer| !answer.duplicate));
    })
    .await;
}

#[tokio::test]
async fn batch_of_unique_jobs_in_a_large_table_is_one_statement_and_one_row_each() {
    costs(WARM_UP, Bound { statements: 1, rows: BATCH, wal: 900 }, BATCH, async |client| {
        let answers = client.insert_many(Quiet::unique(0, BATCH)).await.unwrap();
        assert!(answers.iter().all(|answer| !answer.duplicate));
    })
    .await;
}

#[tokio::test]
async fn batch_of_duplicates_is_one_statement_and_writes_nothing() {
    costs(WARM_UP, Bound { statements: 2, rows: 0, wal: 20 }, 2 * BATCH, async |client| {
        for _ in 0..2 {
            let answers = client.insert_many(Quiet::unique(1_000_000, BATCH)).await.unwrap();
            assert!(answers.iter().all(|answer| answer.duplicate));
        }
    })
    .await;
}

#[tokio::test]
async fn plain_job_is_one_statement_and_one_row() {
    costs(WARM_UP, Bound { statements: SINGLES as u64, rows: SINGLES, wal: 420 }, SINGLES, async |client| {
        for job in Quiet::jobs(SINGLES) {
            client.insert(job).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn unique_job_is_one_statement_and_one_row() {
    costs(WARM_UP, Bound { statements: SINGLES as u64, rows: SINGLES, wal: 700 }, SINGLES, async |client| {
        for job in Quiet::unique(0, SINGLES) {
            assert!(!client.insert(job).await.unwrap().duplicate);
        }
    })
    .await;
}

#[tokio::test]
async fn duplicate_is_one_statement_and_writes_nothing() {
    costs(WARM_UP, Bound { statements: SINGLES as u64, rows: 0, wal: 10 }, SINGLES, async |client| {
        for job in Quiet::unique(1_000_000, SINGLES) {
            assert!(client.insert(job).await.unwrap().duplicate);
        }
    })
    .await;
}

#[tokio::test]
async fn jobs_in_the_caller_s_transaction_are_one_statement_and_one_row_each() {
    // Besides, the transaction ends. (Its beginning is not logged.)
    let (all, statements) = (2 * SINGLES, 2 * SINGLES as u64 + 1);
    costs(WARM_UP, Bound { statements, rows: all, wal: 510 }, all, async |client| {
        let mut connection = client.pool().acquire().await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        for job in Quiet::unique(0, SINGLES) {
            assert!(!client.insert(job).tx(&mut tx).await.unwrap().duplicate);
        }
        for job in Quiet::jobs(SINGLES) {
            client.insert(job).tx(&mut tx).await.unwrap();
        }
        tx.commit().await.unwrap();
    })
    .await;
}
