//! What holds up a group.

use support::prelude::*;
use uniqueue_admin::ObstacleCode;

use super::{codes, first, gone, insert, put, remedy, runner, start};

/// A job of the group `g`.
async fn grouped(database: &Database) -> JobId {
    put(database, job("a").group("g")).await
}

/// The same, in its group's order.
async fn ordered(database: &Database) -> JobId {
    put(database, job("a").group("g").in_order()).await
}

#[support::test]
async fn r23_the_group_is_held(database: Database) {
    runner(&database, "default", 9).await;
    let (id, other) = (grouped(&database).await, insert(&database).await);
    database.client.queue("default").hold_group("g", Duration::from_secs(60)).await.unwrap();
    let held = first(&database, id, ObstacleCode::GroupHeld).await;
    assert!(held.reason.starts_with("Group \"g\" is held until 2"), "{}", held.reason);
    gone(&database, other, ObstacleCode::GroupHeld).await;
    remedy(&database, &held).await;
    gone(&database, id, ObstacleCode::GroupHeld).await;
}

#[support::test]
async fn r23_the_rate_of_the_group(database: Database) {
    runner(&database, "default", 9).await;
    let id = grouped(&database).await;
    database
        .client
        .queue("default")
        .set(QueueChanges::new().group_rate(Some(Rate::per(1, Duration::from_secs(60)))))
        .await
        .unwrap();
    gone(&database, id, ObstacleCode::GroupRate).await;
    database.execute("SELECT {schema}._spend_tokens('{default}', '{g}', now())").await;
    let spent = first(&database, id, ObstacleCode::GroupRate).await;
    assert!(spent.reason.starts_with("Group \"g\" has used up its rate of 1 in 60 s"), "{}", spent.reason);
    database.execute("UPDATE {schema}.queue_group SET rate_full_at = rate_full_at - interval '1 min'").await;
    gone(&database, id, ObstacleCode::GroupRate).await;
}

#[support::test]
async fn r23_the_limit_of_the_group_names_the_job_that_runs(database: Database) {
    let runner = runner(&database, "default", 9).await;
    database.client.queue("default").set(QueueChanges::new().group_limit(Some(1))).await.unwrap();
    let (running, id, last) = (grouped(&database).await, grouped(&database).await, grouped(&database).await);
    start(&database, running, &runner).await;
    let limit = first(&database, id, ObstacleCode::GroupLimit).await;
    assert_eq!(limit.reason, format!("Group \"g\" waits for job {running}, which runs."));
    assert_eq!(limit.details["job"], json!(running));
    assert_eq!(codes(&database, last).await, [ObstacleCode::GroupLimit, ObstacleCode::Behind]);
    database.client.queue("default").set(QueueChanges::new().group_limit(Some(2))).await.unwrap();
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next]);
    start(&database, id, &runner).await;
    let limit = first(&database, last, ObstacleCode::GroupLimit).await;
    assert_eq!(limit.reason, "Group \"g\" has 2 jobs running, and its limit is 2.");
    database.set_state(running, "completed").await;
    assert_eq!(codes(&database, last).await, [ObstacleCode::Next]);
}

#[support::test]
async fn r23_a_job_that_began_holds_up_its_group_until_it_is_final(database: Database) {
    let runner = runner(&database, "default", 9).await;
    let (head, id) = (ordered(&database).await, ordered(&database).await);
    start(&database, head, &runner).await;
    first(&database, id, ObstacleCode::GroupLimit).await;
    database.set_state(head, "retryable").await;
    database
        .execute(&format!("UPDATE {{schema}}.job SET scheduled_at = now() + interval '1 hour' WHERE id = '{head}'"))
        .await;
    let began = first(&database, id, ObstacleCode::GroupBegan).await;
    let sentence = format!("Group \"g\" waits for job {head}, which began and is retryable until 2");
    assert!(began.reason.starts_with(&sentence), "{}", began.reason);
    assert_eq!(began.details["job"], json!(head));
    // It does not hold itself up, also where it is available again.
    assert_eq!(codes(&database, head).await, [ObstacleCode::Retryable]);
    database.set_state(head, "available").await;
    assert_eq!(codes(&database, head).await, [ObstacleCode::Next]);
    first(&database, id, ObstacleCode::GroupBegan).await;
    database.client.cancel([head]).await.unwrap();
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next]);
}

#[support::test]
async fn r23_the_first_job_of_the_group_cannot_start(database: Database) {
    runner(&database, "default", 9).await;
    let head = put(&database, job("b").group("g").priority(1)).await;
    let id = grouped(&database).await;
    let waits = first(&database, id, ObstacleCode::GroupHead).await;
    let why = "No live runner of queue \"default\" has a worker for kind \"b\".";
    assert_eq!(waits.reason, format!("Group \"g\" waits for its first job, {head}: {why}"));
    assert_eq!(codes(&database, head).await, [ObstacleCode::KindUnknown]);
    database.client.cancel([head]).await.unwrap();
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next]);
    // Whatever the reason of its own.
    let head = put(&database, job("a").group("g").priority(1)).await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Behind]);
    database.execute(&format!("UPDATE {{schema}}.job SET crashes = 2 WHERE id = '{head}'")).await;
    let waits = first(&database, id, ObstacleCode::GroupHead).await;
    assert!(waits.reason.contains("is a suspect after 2 crashes"), "{}", waits.reason);
}
