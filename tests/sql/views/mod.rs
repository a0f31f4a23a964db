//! The views: each shows what its comment says, and none reads the whole table.

mod cost;
mod health;
mod jobs;
mod stuck;
mod waiting;

use support::prelude::*;

/// Enters a runner that works these queues, alive for an hour, and answers with its id.
async fn runner(database: &Database, name: &str, queues: &str) -> String {
    let enter = format!(
        "INSERT INTO {{schema}}.runner (id, name, queues, started_at, leased_until, knows_groups)
         VALUES (md5('{name}')::uuid, '{name}', '{{{queues}}}', now() - interval '1 hour', now() + interval '1 hour', true)
         RETURNING id::text"
    );
    database.text(&enter).await
}

/// A job of a queue.
async fn insert(database: &Database, queue: &str) -> JobId {
    database.client.insert(job("a")).queue(queue).await.unwrap().id()
}

/// Puts a job into a runner's hands.
async fn start(database: &Database, id: JobId, runner: &str) {
    let start = format!(
        "UPDATE {{schema}}.job SET state = 'running', worker = '{runner}', attempt = attempt + 1, attempted_at = now()
         WHERE id = '{id}'"
    );
    assert_eq!(database.execute(&start).await, 1);
}
