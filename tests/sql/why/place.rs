//! What holds up one job: its place, its crashes, busy runners.

use support::prelude::*;
use uniqueue_admin::ObstacleCode;

use super::{codes, first, gone, insert, put, runner, start};

#[support::test]
async fn r23_all_slots_are_busy(database: Database) {
    let one = runner(&database, "default", 1).await;
    let two = runner(&database, "default", 1).await;
    let (first_job, second_job, id) = (insert(&database).await, insert(&database).await, insert(&database).await);
    start(&database, first_job, &one).await;
    gone(&database, id, ObstacleCode::SlotsBusy).await;
    start(&database, second_job, &two).await;
    let busy = first(&database, id, ObstacleCode::SlotsBusy).await;
    assert_eq!((&busy.details["slots"], &busy.details["runners"]), (&json!(2), &json!(2)));
    database.set_state(first_job, "completed").await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next]);
    // A runner without a worker for the kind has no room for it, and one that does not say its slots may have.
    database.execute(&format!("UPDATE {{schema}}.runner SET kinds = '{{b}}' WHERE id = '{one}'")).await;
    first(&database, id, ObstacleCode::SlotsBusy).await;
    database.execute("UPDATE {schema}.runner SET slots = NULL").await;
    gone(&database, id, ObstacleCode::SlotsBusy).await;
}

#[support::test]
async fn r23_a_suspect(database: Database) {
    runner(&database, "default", 9).await;
    let id = insert(&database).await;
    database.execute("UPDATE {schema}.job SET crashes = 1").await;
    let few = first(&database, id, ObstacleCode::Suspect).await;
    assert!(few.reason.contains("few suspects at a time"), "{}", few.reason);
    database.execute("UPDATE {schema}.job SET crashes = 3").await;
    let alone = first(&database, id, ObstacleCode::Suspect).await;
    assert!(alone.reason.contains("after 3 crashes") && alone.reason.contains("nothing else"), "{}", alone.reason);
    database.execute("UPDATE {schema}.job SET crashes = 0").await;
    gone(&database, id, ObstacleCode::Suspect).await;
}

#[support::test]
async fn r23_behind_others_in_the_order_of_work(database: Database) {
    runner(&database, "default", 9).await;
    let id = insert(&database).await;
    insert(&database).await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next], "later jobs do not count");
    put(&database, job("a").priority(1)).await;
    put(&database, job("a").scheduled_at(time::OffsetDateTime::UNIX_EPOCH)).await;
    put(&database, job("a").queue("other").priority(1)).await;
    let behind = first(&database, id, ObstacleCode::Behind).await;
    assert_eq!(behind.reason, "The job is behind 2 jobs of queue \"default\".");
    assert_eq!(behind.details["jobs"], json!(2));
    database.client.set_priority([id], 2).await.unwrap();
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next]);
    // Counted no further than needed.
    let jobs: Vec<NewJob> = (0..10_005).map(|_| job("a").priority(3)).collect();
    database.client.insert_many(jobs).await.unwrap();
    let behind = first(&database, id, ObstacleCode::Behind).await;
    assert_eq!(behind.reason, "The job is behind more than 10,000 jobs of queue \"default\".");
}

#[support::test]
async fn r23_behind_others_of_its_group_or_other_suspects(database: Database) {
    runner(&database, "default", 9).await;
    put(&database, job("a").group("g").priority(1)).await;
    put(&database, job("a").group("g").priority(1)).await;
    put(&database, job("a").group("other").priority(1)).await;
    put(&database, job("a").group("g")).await;
    let id = put(&database, job("a").group("g")).await;
    put(&database, job("a").group("g")).await;
    let behind = first(&database, id, ObstacleCode::Behind).await;
    assert_eq!(behind.reason, "The job is behind 3 jobs of group \"g\".");
    let (suspect, id) = (insert(&database).await, insert(&database).await);
    database.execute(&format!("UPDATE {{schema}}.job SET crashes = 1 WHERE id IN ('{suspect}', '{id}')")).await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Suspect, ObstacleCode::Behind]);
    assert_eq!(codes(&database, suspect).await, [ObstacleCode::Suspect]);
}

#[support::test]
async fn r23_runners_pass_it_by(database: Database) {
    let runner = runner(&database, "default", 9).await;
    database.execute("UPDATE {schema}.runner SET kinds = NULL").await;
    let (before, id) = (insert(&database).await, insert(&database).await);
    assert_eq!(codes(&database, id).await, [ObstacleCode::Behind]);
    database.pass(Duration::from_secs(61)).await;
    database.execute("UPDATE {schema}.runner SET leased_until = now() + interval '1 hour'").await;
    let passed = first(&database, id, ObstacleCode::NotTaken).await;
    assert_eq!(codes(&database, before).await, [ObstacleCode::NotTaken]);
    // The view has the same answer.
    let in_view = format!("SELECT code || ' ' || reason FROM {{schema}}.stuck_job WHERE id = '{id}'");
    assert_eq!(database.text(&in_view).await, format!("not_taken {}", passed.reason));
    start(&database, before, &runner).await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next], "the runner is at work on what came before");
}
