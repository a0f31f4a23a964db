//! Runners, queues, kinds, jobs, claims, maintenance.

mod runners;
mod waiting;

use support::prelude::*;

#[derive(Debug, serde::Deserialize, serde::Serialize, uniqueue::Job)]
#[job(kind = "task")]
struct Task {}

/// A runner's row, as it would be so long after its last heartbeat.
async fn runner(database: &Database, name: &str, queue: &str, heartbeat_ago: u32) {
    let row = format!(
        "INSERT INTO {{schema}}.runner (id, name, queues, kinds, started_at, heartbeat_at, leased_until, knows_groups)
         VALUES (gen_random_uuid(), '{name}', '{{{queue}}}', '{{task}}', now() - interval '1 day',
             now() - interval '{heartbeat_ago} s', now() - interval '{heartbeat_ago} s' + interval '20 s', true)"
    );
    database.execute(&row).await;
}
