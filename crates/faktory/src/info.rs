//! The state of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use crate::counts::Counts;
use crate::door::Door;
use crate::refusal::Refusal;

/// The version of Faktory whose commands are spoken.
const VERSION: &str = "1.9.0";

/// How far the jobs of a queue are counted.
const COUNT_UP_TO: u32 = 1_000_000;

/// The answer to `INFO`.
pub(crate) async fn info(door: &Door) -> Result<Value, Refusal> {
    let queues = door.client.queues().count_up_to(COUNT_UP_TO).await?;
    let queues: BTreeMap<String, u64> =
        queues.iter().map(|queue| (queue.settings.name.to_string(), queue.available.counted())).collect();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Counts { started_at, commands, connections, processed, failures } = &door.counts;
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
            "tasks": {},
        },
        "server": {
            "description": concat!("uniqueue ", env!("CARGO_PKG_VERSION")),
            "faktory_version": VERSION,
            "uptime": started_at.elapsed().as_secs(),
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
