//! Map and reduce: one job collects the outputs of many.

use serde_json::json;
use uniqueue::{Client, NewJob};

async fn count_words(client: &Client, files: &[&str]) -> uniqueue::Result<()> {
    let maps: Vec<_> = files.iter().map(|file| NewJob::new("words.count", &json!({"file": file}))).collect();
    let reduce = NewJob::new("words.sum", &json!({})).after(&maps);
    client.insert_many(maps.into_iter().chain([reduce])).await?;
    Ok(())
}

use uniqueue::testing::{self, Drained};
use uniqueue::{BoxError, Outcome};

use super::{crash, first_of, jobs, refuse, rescue, runner, states};
use support::Database;

const FILES: [&str; 3] = ["a", "bb", "ccc"];

/// A map's output is the length of its file's name, and the reduce adds them.
async fn drain(database: &Database) -> Drained {
    let maps_and_reduce = runner(database)
        .worker_for(["words.count"], |job| async move {
            let args: serde_json::Value = serde_json::from_str(job.row().args.get())?;
            let words = args["file"].as_str().map_or(0, str::len);
            Ok::<_, BoxError>(Outcome::complete_with(words)?)
        })
        .worker_for(["words.sum"], |job| async move {
            let parents = job.client().parents(job.id()).await?;
            let counts = parents.iter().filter_map(|map| map.output_as::<u64>().transpose());
            Ok::<_, BoxError>(Outcome::complete_with(counts.sum::<uniqueue::Result<u64>>()?)?)
        });
    testing::drain(maps_and_reduce).await.unwrap()
}

async fn sum(database: &Database) -> i64 {
    database.number("SELECT output::bigint FROM {schema}.job WHERE kind = 'words.sum'").await
}

#[support::test]
async fn the_reduce_starts_once_after_the_last_map(database: Database) {
    count_words(&database.client, &FILES).await.unwrap();
    let drained = drain(&database).await;
    assert_eq!((drained.completed(), drained.jobs()[3].job.kind.as_str()), (4, "words.sum"));
    assert_eq!(sum(&database).await, 6);
}

#[support::test]
async fn at_a_crash_only_the_map_that_ran_is_tried_again(database: Database) {
    count_words(&database.client, &FILES).await.unwrap();
    crash(&database, "words.count").await;
    assert_eq!(drain(&database).await.completed(), 2);
    rescue(&database).await;
    assert_eq!(drain(&database).await.completed(), 2, "the map, and the reduce");
    assert_eq!(sum(&database).await, 6);
}

#[support::test]
async fn after_a_rollback_nothing_was_inserted(database: Database) {
    refuse(&database, "words.sum").await;
    assert!(count_words(&database.client, &FILES).await.is_err());
    assert_eq!(jobs(&database).await, 0);
}

#[support::test]
async fn the_reduce_is_cancelled_with_a_map_and_the_other_maps_go_on(database: Database) {
    count_words(&database.client, &FILES).await.unwrap();
    database.client.cancel(first_of(&database, "words.count").await).await.unwrap();
    assert_eq!(drain(&database).await.completed(), 2);
    let expected = "words.count cancelled, words.count completed, words.count completed, words.sum cancelled";
    assert_eq!(states(&database).await, expected);
}
