//! The state of the server, and its queues: counted, paused, emptied and measured.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use uniqueue::{JobFilter, JobState};
use uniqueue_admin::{Admin, QueueInfo};

use crate::command::QueueVerb;
use crate::door::{Counts, Door};
use crate::reply::{Refusal, Reply};

/// The version of Faktory whose commands are spoken.
const VERSION: &str = "1.9.0";

/// The answer to `INFO`. Counts of a queue beyond 10,000 are estimates.
pub(crate) async fn info(door: &Door) -> Result<Value, Refusal> {
    let all = door.queues.queues().await?;
    let size = |state| all.iter().map(|queue| queue.count(state).counted()).sum::<u64>();
    // The members that client libraries read of each set.
    let set = |state| json!({ "size": size(state), "enqueued": 0, "cycles": 0, "wall_time_sec": 0.0 });
    let listed = all.iter().filter(|queue| door.removed.lists(queue));
    let queues: BTreeMap<&str, u64> =
        listed.map(|queue| (queue.settings.name.as_str(), queue.available.counted())).collect();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Counts { commands, connections, processed, failures } = &door.counts;
    let now = OffsetDateTime::now_utc();
    let clock = now.format(format_description!("[hour]:[minute]:[second] UTC"));
    Ok(json!({
        "now": now.format(&Rfc3339).unwrap_or_default(),
        "server_utc_time": clock.unwrap_or_default(),
        "faktory": {
            "default_size": queues.get("default").copied().unwrap_or(0),
            "total_enqueued": queues.values().sum::<u64>(),
            "total_queues": queues.len(),
            "total_processed": count(processed),
            "total_failures": count(failures),
            "queues": queues,
            "tasks": {
                "Scheduled": set(JobState::Scheduled),
                "Retries": set(JobState::Retryable),
                "Dead": set(JobState::Discarded),
                "Busy": { "size": size(JobState::Running), "reaped": 0 },
                "Workers": { "size": door.workers.count(), "reaped": 0 },
            },
        },
        "server": {
            "description": concat!("uniqueue ", env!("CARGO_PKG_VERSION")),
            "faktory_version": VERSION,
            "uptime": door.started_at.elapsed().as_secs(),
            "connections": count(connections),
            "command_count": count(commands),
            "used_memory_mb": used_memory(),
        },
    }))
}

/// The memory of this process in megabytes. 0 where the system does not tell it as Linux does.
fn used_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1_024
}

/// Pauses, resumes, empties or measures each of these queues. `*` means all.
pub(crate) async fn queue(door: &Door, verb: QueueVerb, names: Vec<String>, actor: &str) -> Result<Reply, Refusal> {
    let client = &door.client;
    let are_all = names.iter().any(|name| name == "*");
    if verb == QueueVerb::Latency {
        let queues = door.queues.queues().await?;
        let age = |queue: &QueueInfo| queue.oldest_available_age.unwrap_or_default().as_secs_f64();
        let ages: BTreeMap<_, _> = queues.iter().map(|queue| (queue.settings.name.as_str(), age(queue))).collect();
        let wanted = match are_all {
            true => ages,
            false => {
                names.iter().map(|name| (name.as_str(), ages.get(name.as_str()).copied().unwrap_or(0.0))).collect()
            }
        };
        return Ok(Reply::Value(json!(wanted).to_string()));
    }
    let names = match are_all {
        true => {
            let all = Admin::new(client).queues().count_up_to(1).await?;
            all.into_iter().map(|queue| queue.settings.name.to_string()).collect()
        }
        false => names,
    };
    for name in &names {
        match verb {
            QueueVerb::Pause => drop(client.queue(name).pause().actor(actor).await?),
            QueueVerb::Resume => drop(client.queue(name).resume().actor(actor).await?),
            QueueVerb::Remove => {
                let waiting = JobFilter::new().queue(name).states(JobState::Available);
                client.cancel(waiting).actor(actor).await?;
                // Counts of before the removal would list the queue again.
                door.queues.changed();
                door.removed.add(name);
            }
            QueueVerb::Latency => {}
        }
    }
    Ok(Reply::Ok)
}
