//! Batch import: three callbacks tell how it went.

use serde_json::json;
use sqlx::PgConnection;
use uniqueue::{Client, NewJob};

async fn import(client: &Client, tx: &mut PgConnection, import: u64, rows: u32) -> uniqueue::Result<()> {
    let batch: Vec<_> = (0..rows).map(|row| NewJob::new("import.row", &json!({"row": row}))).collect();
    let args = json!({"import": import});
    let done = NewJob::new("import.done", &args).after(&batch);
    let failed = NewJob::new("import.failed", &args).after_failed(&batch);
    let ended = NewJob::new("import.ended", &args).after_final(&batch);
    client.insert_many(batch.into_iter().chain([done, failed, ended])).tx(tx).await?;
    Ok(())
}

use super::{crash, error_of, first_of, jobs, rescue, states, work};
use support::Database;

const KINDS: [&str; 4] = ["import.row", "import.done", "import.failed", "import.ended"];

async fn insert(database: &Database) {
    let mut tx = database.pool().begin().await.unwrap();
    import(&database.client, &mut tx, 7, 2).await.unwrap();
    tx.commit().await.unwrap();
}

#[support::test]
async fn done_and_ended_run_when_all_rows_completed(database: Database) {
    insert(&database).await;
    work(&database, &KINDS, "").await;
    let rows = "import.row completed, import.row completed";
    let expected = format!("{rows}, import.done completed, import.failed cancelled, import.ended completed");
    assert_eq!(states(&database).await, expected);
    let error = error_of(&database, "import.failed").await;
    assert_eq!(error, "cancelled: it runs only if a parent fails, and each of them completed");
}

#[support::test]
async fn a_crash_between_the_last_row_and_its_callbacks_loses_nothing(database: Database) {
    insert(&database).await;
    crash(&database, "import.row").await;
    assert_eq!(work(&database, &KINDS, "").await.completed(), 1, "the other row");
    rescue(&database).await;
    // A runner completes the last row, and its process dies before a child is released.
    database.set_state(first_of(&database, "import.row").await, "completed").await;
    assert!(states(&database).await.contains("import.done pending"));
    assert_eq!(work(&database, &KINDS, "").await.completed(), 2, "of another runner");
    assert!(states(&database).await.contains("import.done completed"));
}

#[support::test]
async fn after_a_rollback_neither_rows_nor_callbacks_exist(database: Database) {
    let mut tx = database.pool().begin().await.unwrap();
    import(&database.client, &mut tx, 7, 2).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(jobs(&database).await, 0);
}

#[support::test]
async fn a_cancelled_row_cancels_done_at_once_and_failed_and_ended_run_after_the_last_row(database: Database) {
    insert(&database).await;
    database.client.cancel(first_of(&database, "import.row").await).await.unwrap();
    // No row is worked yet.
    work(&database, &["import.done", "import.failed", "import.ended"], "").await;
    let callbacks = "import.done cancelled, import.failed pending, import.ended pending";
    assert_eq!(states(&database).await, format!("import.row cancelled, import.row available, {callbacks}"));
    work(&database, &KINDS, "").await;
    let callbacks = "import.done cancelled, import.failed completed, import.ended completed";
    assert_eq!(states(&database).await, format!("import.row cancelled, import.row completed, {callbacks}"));
}
