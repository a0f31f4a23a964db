//! Pausing, emptying and measuring queues.

use std::collections::BTreeMap;

use serde_json::json;
use uniqueue::{JobFilter, JobState};
use uniqueue_admin::Admin;

use crate::command::QueueVerb;
use crate::door::Door;
use crate::reply::{Refusal, Reply};

/// Does it for each of these queues. `*` means all.
pub(crate) async fn queue(door: &Door, verb: QueueVerb, names: Vec<String>, actor: &str) -> Result<Reply, Refusal> {
    let client = &door.client;
    let all = match verb == QueueVerb::Latency {
        true => door.queues.queues().await?.to_vec(),
        false if names.iter().any(|name| name == "*") => Admin::new(client).queues().count_up_to(1).await?,
        false => Vec::new(),
    };
    let names = match names.iter().any(|name| name == "*") {
        true => all.iter().map(|queue| queue.settings.name.to_string()).collect(),
        false => names,
    };
    if verb == QueueVerb::Latency {
        let ages: BTreeMap<_, _> = all
            .iter()
            .map(|queue| (queue.settings.name.as_str(), queue.oldest_available_age.unwrap_or_default().as_secs_f64()))
            .collect();
        let wanted: BTreeMap<_, _> =
            names.iter().map(|name| (name, ages.get(name.as_str()).copied().unwrap_or(0.0))).collect();
        return Ok(Reply::Value(json!(wanted).to_string()));
    }
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
