//! `uniqueue queue pause|resume|hold|remove`.

use uniqueue_admin::QueueInfo;

use super::set::{notes, told};
use crate::prelude::*;

/// Stop fetching from queues, on every runner.
///
/// Running jobs are finished. A queue need not exist yet. If no live runner works a queue and it has no recent job, a note on
/// standard error asks whether its name is right. A queue that is paused already keeps the time of its pause. The pause is
/// stored with the name in UNIQUEUE_ACTOR, or else that of the system's user.
///
/// ***
///
/// With --json it prints one line a queue: {"name", "paused_at", "limit", "keep_completed", …, "changed"}.
///
/// Examples:
///   uniqueue queue pause emails
///   uniqueue queue pause emails imports --reason 'the provider is down'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct PauseArguments {
    /// One or more queues
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// The reason of the pause, shown wherever the queue is listed
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Fetch from queues again, whether they are paused or held.
///
/// Holds of groups stay. With --group only the hold of that group ends.
///
/// ***
///
/// With --json it prints one line a queue: {"name", "paused_at", "limit", "keep_completed", …, "changed"}.
///
/// Examples:
///   uniqueue queue resume emails
///   uniqueue queue resume emails --group customer:1
///
/// Exit codes:
///   0    resumed, or was neither paused nor held, as the output says
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ResumeArguments {
    /// One or more queues
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// End the hold of this group alone
    #[arg(long, value_name = "KEY")]
    group: Option<String>,
}

/// Fetch nothing from a queue, or no job of a group, for a time.
///
/// Running jobs are finished. A hold that ends later stays; queue resume ends it at once. Workers hold their queue or group with
/// Outcome::hold_queue and Outcome::hold_group.
///
/// ***
///
/// With --json it prints one object: {"name", "held_until", …}; with --group: {"queue", "group", "seconds"}.
///
/// Examples:
///   uniqueue queue hold geocoding 10m
///   uniqueue queue hold emails 1h --group customer:1
///   uniqueue queue resume geocoding
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct HoldArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// For how long, from now by the database's clock
    #[arg(value_name = "DURATION")]
    hold_for: DurationArgument,

    /// Hold this group alone
    #[arg(long, value_name = "KEY")]
    group: Option<String>,
}

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

/// Pauses queues.
pub(super) async fn pause(client: &Client, form: &Form, arguments: PauseArguments) -> Result<Answer, Failure> {
    let PauseArguments { names, reason } = arguments;
    let mut whole = Answer::default();
    for name in &names {
        let mut tx = client.pool().begin().await?;
        let before = client.queue(name).settings().tx(&mut tx).await?;
        let queue = client.queue(name);
        let pause = reason.as_ref().map_or_else(|| queue.pause(), |reason| queue.pause_because(reason));
        let settings = pause.actor(own_name()).tx(&mut tx).await?;
        tx.commit().await?;
        let text = match (before.paused_at, settings.paused_at) {
            (Some(since), _) => format!("was paused already, since {}", format_time(since)),
            (None, Some(_)) => "is paused; running jobs are finished".to_owned(),
            (None, None) => "is not paused".to_owned(),
        };
        let told = told(form, &settings, Some(before.paused_at.is_none()), &text)?;
        whole.add(told.notes(notes(client, &before).await));
    }
    Ok(whole)
}

/// Resumes queues.
pub(super) async fn resume(client: &Client, form: &Form, arguments: ResumeArguments) -> Result<Answer, Failure> {
    let ResumeArguments { names, group } = arguments;
    let mut whole = Answer::default();
    for name in &names {
        if let Some(group) = &group {
            let changed = client.queue(name).resume_group(group).actor(own_name()).await?;
            let text = if changed { "is resumed" } else { "was not held" };
            let line = json!({ "queue": name, "group": group, "changed": changed });
            whole.add(told_of_group(form, name, group, &line, text)?);
            continue;
        }
        let mut tx = client.pool().begin().await?;
        let before = client.queue(name).settings().tx(&mut tx).await?;
        let settings = client.queue(name).resume().actor(own_name()).tx(&mut tx).await?;
        tx.commit().await?;
        let changed = before.paused_at.is_some() || before.held_until.is_some();
        let text = if changed { "is resumed" } else { "was not paused" };
        whole.add(told(form, &settings, Some(changed), text)?);
    }
    Ok(whole)
}

/// Holds a queue, or a group of it.
pub(super) async fn hold(client: &Client, form: &Form, arguments: HoldArguments) -> Result<Answer, Failure> {
    let HoldArguments { name, hold_for: DurationArgument(hold_for), group } = arguments;
    let handle = client.queue(&name);
    let before = handle.settings().await?;
    let told = match group {
        Some(group) => {
            handle.hold_group(&group, hold_for).actor(own_name()).await?;
            let line = json!({ "queue": name, "group": group, "seconds": hold_for.as_secs_f64() });
            told_of_group(form, &name, &group, &line, &format!("is held for {}", DurationArgument(hold_for)))?
        }
        None => {
            let settings = handle.hold(hold_for).actor(own_name()).await?;
            let text = match settings.held_until {
                Some(until) => format!("is held until {}; running jobs are finished", format_time(until)),
                None => "is not held".to_owned(),
            };
            told(form, &settings, None, &text)?
        }
    };
    Ok(told.notes(notes(client, &before).await))
}

fn told_of_group(form: &Form, name: &str, group: &str, line: &Value, text: &str) -> Result<Answer, Failure> {
    form.part(line, &format!("group {} of queue {} {text}\n", printable(group), printable(name)))
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
