//! R23: one function says for any job that has not started why. Each test makes a situation, sees its code first, removes
//! the situation and sees the code gone.

mod group;
mod lock;
mod place;
mod queue;
mod state;

use support::prelude::*;
use uniqueue_admin::{Obstacle, ObstacleCode};

/// A runner that lives for an hour, works these queues with that many slots each, and knows the kind `a`.
async fn runner(database: &Database, queues: &str, slots: u32) -> String {
    let enter = format!(
        "INSERT INTO {{schema}}.runner (id, name, queues, slots, kinds, started_at, leased_until, knows_groups)
         SELECT gen_random_uuid(), 'one', q.queues, array_fill({slots}, ARRAY[cardinality(q.queues)]), '{{a}}',
             now() - interval '1 hour', now() + interval '1 hour', true
         FROM (SELECT '{{{queues}}}'::text[] AS queues) AS q
         RETURNING id::text"
    );
    database.text(&enter).await
}

/// A job of kind `a`, in the queue `default`.
async fn insert(database: &Database) -> JobId {
    put(database, job("a")).await
}

async fn put(database: &Database, job: NewJob) -> JobId {
    database.client.insert(job).await.unwrap().id()
}

/// Gives a job to a runner.
async fn start(database: &Database, id: JobId, runner: &str) {
    let start = format!(
        "UPDATE {{schema}}.job
         SET state = 'running', worker = '{runner}', attempt = attempt + 1, attempted_at = now(), run = run + 1,
             began = CASE WHEN in_order THEN run + 1 END
         WHERE id = '{id}'"
    );
    assert_eq!(database.execute(&start).await, 1);
}

async fn why(database: &Database, id: JobId) -> Vec<Obstacle> {
    let obstacles = Admin::new(&database.client).why(id).await.unwrap();
    assert!(obstacles.is_sorted_by(|before, after| before.code < after.code), "{obstacles:?}");
    assert!(obstacles.iter().all(|one| one.reason.ends_with('.') && !one.reason.contains("null")), "{obstacles:?}");
    // SQL, the list of first obstacles and the client have one answer.
    let first = Admin::new(&database.client).first_obstacles([id]).await.unwrap();
    assert_eq!(first.get(&id), obstacles.first());
    obstacles
}

async fn codes(database: &Database, id: JobId) -> Vec<ObstacleCode> {
    why(database, id).await.into_iter().map(|obstacle| obstacle.code).collect()
}

/// The first obstacle of a job, which has this code.
async fn first(database: &Database, id: JobId, code: ObstacleCode) -> Obstacle {
    let obstacles = why(database, id).await;
    assert_eq!(obstacles[0].code, code, "{obstacles:?}");
    obstacles.into_iter().next().unwrap()
}

/// Checks that a job has no such obstacle.
async fn gone(database: &Database, id: JobId, code: ObstacleCode) {
    let obstacles = why(database, id).await;
    assert!(obstacles.iter().all(|obstacle| obstacle.code != code), "{obstacles:?}");
}

/// Runs the statement of an obstacle's remedy.
async fn remedy(database: &Database, obstacle: &Obstacle) {
    let remedy = obstacle.remedy.as_deref().unwrap();
    let (_, statement) = remedy.split_once("SELECT").unwrap();
    database.execute(&format!("SELECT{statement}")).await;
}

#[support::test]
async fn r23_the_codes_of_sql_and_of_rust_are_the_same_and_each_has_a_sentence(database: Database) {
    let codes: Vec<_> = ObstacleCode::ALL.iter().map(|code| code.as_str()).collect();
    let in_sql = "SELECT array_to_string({schema}._obstacle_codes(), ' ')";
    assert_eq!(database.text(in_sql).await, codes.join(" "));
    let without = "SELECT coalesce(string_agg(c, ' '), '') FROM unnest({schema}._obstacle_codes()) AS c
        WHERE coalesce({schema}._obstacle_reason(c, '{}'), '') = ''";
    assert_eq!(database.text(without).await, "");
}

#[support::test]
async fn r23_an_unknown_job_has_no_row_and_one_that_nothing_holds_up_has_one(database: Database) {
    runner(&database, "default", 1).await;
    assert_eq!(codes(&database, JobId::generate()).await, []);
    let id = insert(&database).await;
    assert_eq!(codes(&database, id).await, [ObstacleCode::Next]);
    assert_eq!(Admin::new(&database.client).why_queue("default").await.unwrap().unwrap().id, id);
    assert_eq!(Admin::new(&database.client).why_queue("other").await.unwrap(), None);
}

#[support::test]
async fn r23_obstacles_come_in_their_order(database: Database, client: &Client) {
    let before = insert(&database).await;
    let id = insert(&database).await;
    client.queue("default").pause().await.unwrap();
    client.queue("default").hold(std::time::Duration::from_secs(60)).await.unwrap();
    let all = [ObstacleCode::QueuePaused, ObstacleCode::QueueHeld, ObstacleCode::QueueUnworked];
    assert_eq!(codes(&database, before).await, all);
    assert_eq!(codes(&database, id).await, [all.as_slice(), &[ObstacleCode::Behind]].concat());
    let first = Admin::new(client).why_queue("default").await.unwrap().unwrap();
    assert_eq!((first.id, first.obstacles), (before, why(&database, before).await));
}
