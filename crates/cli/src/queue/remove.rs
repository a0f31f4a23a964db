//! `uniqueue queue remove`.

use clap::Args;
use serde_json::json;
use uniqueue::{Client, JobState};
use uniqueue_admin::{Admin, QueueInfo};

use crate::exit::{Failure, Verdict};
use crate::output::{Answer, Form, printable};
use crate::own_name::own_name;

/// Remove the settings of queues, such as those of a mistyped name.
///
/// A queue that has unfinished jobs or a live runner is left as it is, because removing its settings would resume it and lift
/// its limit.
///
/// ***
///
/// With --json it prints one line a queue: {"name", "removed", "reason"}. The reason is null for a removed queue.
///
/// Examples:
///   uniqueue queue remove emials
///
/// Exit codes:
///   1    a queue has no settings, or has unfinished jobs or a live runner
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct RemoveArguments {
    /// One or more queues
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// Removes the settings of queues.
pub(super) async fn remove(client: &Client, form: &Form, arguments: RemoveArguments) -> Result<Answer, Failure> {
    let queues = Admin::new(client).queues().count_up_to(1).await?;
    let mut whole = Answer::default();
    for name in &arguments.names {
        let info = queues.iter().find(|queue| queue.settings.name.as_str() == name);
        let reason = match info.and_then(in_use) {
            Some(reason) => Some(reason),
            None if client.queue(name).remove().actor(own_name()).await? => None,
            None => Some("it has no settings"),
        };
        let (verdict, text) = match reason {
            None => (Verdict::Fine, format!("removed the settings of queue {}\n", printable(name))),
            Some(why) => (Verdict::NotFine, format!("queue {} is left as it is: {why}\n", printable(name))),
        };
        let line = json!({ "name": name, "removed": reason.is_none(), "reason": reason });
        whole.add(form.part(&line, &text)?.verdict(verdict));
    }
    Ok(whole)
}

/// Why the settings of a queue must stay. `None` if nothing uses it.
fn in_use(queue: &QueueInfo) -> Option<&'static str> {
    let is_unfinished = |state: &JobState| !state.is_final() && queue.count(*state).counted() > 0;
    if queue.runners > 0 {
        Some("a live runner works it")
    } else if JobState::ALL.iter().any(is_unfinished) {
        Some("it has unfinished jobs")
    } else {
        None
    }
}
