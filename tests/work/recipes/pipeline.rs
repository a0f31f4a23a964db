//! Pipeline: each step reads the output of the one before.

use serde::{Deserialize, Serialize};
use uniqueue::{BoxError, Client, Job, NewJob, Outcome, RunningJob};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "video.encode")]
struct Encode {
    file: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "video.publish")]
struct Publish {
    title: String,
}

async fn insert(client: &Client) -> uniqueue::Result<()> {
    let encode = NewJob::from(Encode { file: "a.mov".to_owned() });
    let publish = NewJob::from(Publish { title: "A".to_owned() }).after(&encode);
    client.insert_many([encode, publish]).await?;
    Ok(())
}

async fn encode(job: RunningJob<Encode>) -> Result<Outcome, BoxError> {
    Ok(Outcome::complete_with(format!("{}.mp4", job.args.file))?)
}

async fn publish(job: RunningJob<Publish>) -> Result<(), BoxError> {
    let files: Vec<String> = job.outputs_of::<Encode, _>().await?;
    println!("{}: {}", job.args.title, files.join(", "));
    Ok(())
}

use uniqueue::testing;

use super::{crash, error_of, first_of, jobs, refuse, rescue, runner, states, worked};
use support::Database;

async fn drain(database: &Database) -> testing::Drained {
    testing::drain(runner(database).worker(encode).worker(publish)).await.unwrap()
}

#[support::test]
async fn a_step_reads_the_output_of_the_step_before(database: Database) {
    insert(&database.client).await.unwrap();
    assert_eq!(worked(&drain(&database).await), ["video.encode", "video.publish"]);
    assert_eq!(states(&database).await, "video.encode completed, video.publish completed");
    let parents = database.client.parents(first_of(&database, "video.publish").await).await.unwrap();
    assert_eq!(parents[0].output_as::<String>().unwrap().as_deref(), Some("a.mov.mp4"));
}

#[support::test]
async fn at_a_crash_the_step_runs_again_and_the_steps_after_it_wait(database: Database) {
    insert(&database.client).await.unwrap();
    crash(&database, "video.encode").await;
    assert_eq!(drain(&database).await.jobs().len(), 0);
    assert_eq!(states(&database).await, "video.encode running, video.publish pending");
    rescue(&database).await;
    assert_eq!(worked(&drain(&database).await), ["video.encode", "video.publish"]);
    assert_eq!(states(&database).await, "video.encode completed, video.publish completed");
}

#[support::test]
async fn after_a_rollback_no_step_was_ever_there(database: Database) {
    refuse(&database, "video.publish").await;
    assert!(insert(&database.client).await.is_err());
    assert_eq!(jobs(&database).await, 0);
}

#[support::test]
async fn the_steps_after_a_cancelled_step_are_cancelled_with_that_reason(database: Database) {
    insert(&database.client).await.unwrap();
    let first = first_of(&database, "video.encode").await;
    database.client.cancel(first).await.unwrap();
    assert_eq!(drain(&database).await.jobs().len(), 0);
    assert_eq!(states(&database).await, "video.encode cancelled, video.publish cancelled");
    let error = error_of(&database, "video.publish").await;
    assert_eq!(error, format!("cancelled: its parent {first} (video.encode) was cancelled"));
}
