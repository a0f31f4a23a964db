//! What holds up a whole queue.

use support::prelude::*;
use uniqueue_admin::ObstacleCode;

use super::{first, gone, insert, remedy, runner, start};

#[support::test]
async fn r23_paused(database: Database) {
    runner(&database, "default", 1).await;
    let id = insert(&database).await;
    database.client.queue("default").pause().await.unwrap();
    let paused = first(&database, id, ObstacleCode::QueuePaused).await;
    assert!(paused.reason.starts_with("Queue \"default\" has been paused since 2"), "{}", paused.reason);
    remedy(&database, &paused).await;
    gone(&database, id, ObstacleCode::QueuePaused).await;
}

#[support::test]
async fn r23_held_until(database: Database) {
    runner(&database, "default", 1).await;
    let id = insert(&database).await;
    database.client.queue("default").hold(Duration::from_secs(3_600)).await.unwrap();
    let held = first(&database, id, ObstacleCode::QueueHeld).await;
    assert!(held.details["until"].is_string(), "{held:?}");
    remedy(&database, &held).await;
    gone(&database, id, ObstacleCode::QueueHeld).await;
    database.client.queue("default").hold(Duration::from_secs(3_600)).await.unwrap();
    database.execute("UPDATE {schema}.queue SET held_until = held_until - interval '1 hour'").await;
    gone(&database, id, ObstacleCode::QueueHeld).await;
}

#[support::test]
async fn r23_no_live_runner_works_the_queue(database: Database) {
    runner(&database, "other", 1).await;
    let id = insert(&database).await;
    let unworked = first(&database, id, ObstacleCode::QueueUnworked).await;
    assert_eq!(unworked.reason, "No live runner works queue \"default\".");
    assert_eq!(unworked.remedy.as_deref(), Some("Start a runner that works queue \"default\"."));
    let mine = runner(&database, "other,default", 1).await;
    gone(&database, id, ObstacleCode::QueueUnworked).await;
    database.execute(&format!("UPDATE {{schema}}.runner SET leased_until = now() WHERE id = '{mine}'")).await;
    first(&database, id, ObstacleCode::QueueUnworked).await;
}

#[support::test]
async fn r23_no_live_runner_of_the_queue_knows_the_kind(database: Database) {
    runner(&database, "default", 1).await;
    // It knows the kind, and works another queue.
    runner(&database, "other", 1).await;
    let id = insert(&database).await;
    gone(&database, id, ObstacleCode::KindUnknown).await;
    let forget = "UPDATE {schema}.runner SET kinds = '{b,c}' WHERE 'default' = ANY (queues)";
    database.execute(forget).await;
    let unknown = first(&database, id, ObstacleCode::KindUnknown).await;
    assert_eq!(unknown.reason, "No live runner of queue \"default\" has a worker for kind \"a\".");
    // A runner that does not say its kinds may know any.
    database.execute("UPDATE {schema}.runner SET kinds = NULL").await;
    gone(&database, id, ObstacleCode::KindUnknown).await;
}

#[support::test]
async fn r23_the_limit_of_the_queue(database: Database) {
    let runner = runner(&database, "default", 9).await;
    database.client.queue("default").limit(Some(2)).await.unwrap();
    let (one, two, id) = (insert(&database).await, insert(&database).await, insert(&database).await);
    start(&database, one, &runner).await;
    gone(&database, id, ObstacleCode::QueueLimit).await;
    start(&database, two, &runner).await;
    let limit = first(&database, id, ObstacleCode::QueueLimit).await;
    assert_eq!(limit.reason, "Queue \"default\" has 2 jobs running, and its limit is 2.");
    assert_eq!((&limit.details["jobs"], &limit.details["limit"]), (&json!(2), &json!(2)));
    remedy(&database, &limit).await;
    gone(&database, id, ObstacleCode::QueueLimit).await;
    database.client.queue("default").limit(Some(2)).await.unwrap();
    first(&database, id, ObstacleCode::QueueLimit).await;
    database.set_state(one, "completed").await;
    gone(&database, id, ObstacleCode::QueueLimit).await;
}

#[support::test]
async fn r23_the_rate_of_the_queue(database: Database) {
    runner(&database, "default", 9).await;
    let id = insert(&database).await;
    let rate = Rate::per(2, Duration::from_secs(60));
    database.client.queue("default").set(QueueChanges::new().rate(Some(rate))).await.unwrap();
    gone(&database, id, ObstacleCode::QueueRate).await;
    database.execute("SELECT {schema}._spend_tokens('{default,default}', ARRAY[NULL, NULL]::text[], now())").await;
    let spent = first(&database, id, ObstacleCode::QueueRate).await;
    assert!(spent.reason.starts_with("Queue \"default\" has used up its rate of 2 in 60 s, and may start a job at 2"));
    // A token comes each half minute.
    database.execute("UPDATE {schema}.queue SET rate_full_at = rate_full_at - interval '25 s'").await;
    first(&database, id, ObstacleCode::QueueRate).await;
    database.execute("UPDATE {schema}.queue SET rate_full_at = rate_full_at - interval '5 s'").await;
    gone(&database, id, ObstacleCode::QueueRate).await;
    database.execute("SELECT {schema}._spend_tokens('{default,default}', ARRAY[NULL, NULL]::text[], now())").await;
    remedy(&database, &first(&database, id, ObstacleCode::QueueRate).await).await;
    assert_eq!(database.client.queue("default").settings().await.unwrap().rate.unwrap().count, 4);
    database.client.queue("default").set(QueueChanges::new().rate(None)).await.unwrap();
    gone(&database, id, ObstacleCode::QueueRate).await;
}

#[support::test]
async fn r23_a_session_has_locked_the_settings_of_the_queue(database: Database) {
    runner(&database, "default", 9).await;
    let id = insert(&database).await;
    database.client.queue("default").limit(Some(5)).await.unwrap();
    let mut tx = database.pool().begin().await.unwrap();
    database.client.queue("default").limit(Some(6)).tx(&mut tx).await.unwrap();
    // Shorter locks are those of fetches.
    let admin = Admin::new(&database.client);
    eventually!(admin.why(id).await.unwrap()[0].code == ObstacleCode::QueueLocked, "the lock is not seen");
    let locked = first(&database, id, ObstacleCode::QueueLocked).await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(locked.details["pid"], json!(pid));
    tx.commit().await.unwrap();
    gone(&database, id, ObstacleCode::QueueLocked).await;
}
