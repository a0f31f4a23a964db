//! `uniqueue queue pause|resume|hold`.

use clap::Args;
use serde_json::{Value, json};
use uniqueue::Client;

use super::set::{note_unknown_queue, print_settings};
use crate::exit::{Failure, Verdict};
use crate::output::{self, Form, format_time, printable};
use crate::own_name::own_name;
use crate::time_argument::DurationArgument;

/// Stop fetching from queues, on every runner.
///
/// Running jobs are finished. A queue need not exist yet. If no live runner works a queue and it has no recent job, a note on
/// standard error asks whether its name is right. A queue that is paused already keeps the time of its pause. The pause is
/// stored with the name in UNIQUEUE_ACTOR, or else that of the system's user.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json it prints one line a queue: {\"name\", \"paused_at\", \"limit\", \"keep_completed\", …, \"changed\"}.

Examples:
  uniqueue queue pause emails
  uniqueue queue pause emails imports --reason 'the provider is down'")]
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
#[derive(Debug, Args)]
#[command(after_help = "\
With --json it prints one line a queue: {\"name\", \"paused_at\", \"limit\", \"keep_completed\", …, \"changed\"}.

Examples:
  uniqueue queue resume emails
  uniqueue queue resume emails --group customer:1

Exit codes:
  0    resumed, or was neither paused nor held, as the output says")]
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
#[derive(Debug, Args)]
#[command(after_help = "\
With --json it prints one object: {\"name\", \"held_until\", …}; with --group: {\"queue\", \"group\", \"seconds\"}.

Examples:
  uniqueue queue hold geocoding 10m
  uniqueue queue hold emails 1h --group customer:1
  uniqueue queue resume geocoding")]
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

/// Pauses queues.
pub(super) async fn pause(client: &Client, form: &Form, arguments: PauseArguments) -> Result<Verdict, Failure> {
    let PauseArguments { names, reason } = arguments;
    for name in &names {
        let mut tx = client.pool().begin().await?;
        let before = client.queue(name).settings().tx(&mut tx).await?;
        let queue = client.queue(name);
        let pause = reason.as_ref().map_or_else(|| queue.pause(), |reason| queue.pause_because(reason));
        let settings = pause.actor(own_name()).tx(&mut tx).await?;
        tx.commit().await?;
        print_settings(&settings, Some(before.paused_at.is_none()), form.json, |settings| {
            match (before.paused_at, settings.paused_at) {
                (Some(since), _) => format!("was paused already, since {}", format_time(since)),
                (None, Some(_)) => "is paused; running jobs are finished".to_owned(),
                (None, None) => "is not paused".to_owned(),
            }
        })?;
        note_unknown_queue(client, &before).await;
    }
    Ok(Verdict::Fine)
}

/// Resumes queues.
pub(super) async fn resume(client: &Client, form: &Form, arguments: ResumeArguments) -> Result<Verdict, Failure> {
    let ResumeArguments { names, group } = arguments;
    for name in &names {
        if let Some(group) = &group {
            let changed = client.queue(name).resume_group(group).actor(own_name()).await?;
            let text = if changed { "is resumed" } else { "was not held" };
            print_group(name, group, form.json, json!({ "queue": name, "group": group, "changed": changed }), text)?;
            continue;
        }
        let mut tx = client.pool().begin().await?;
        let before = client.queue(name).settings().tx(&mut tx).await?;
        let settings = client.queue(name).resume().actor(own_name()).tx(&mut tx).await?;
        tx.commit().await?;
        let changed = before.paused_at.is_some() || before.held_until.is_some();
        print_settings(&settings, Some(changed), form.json, |_| {
            if changed { "is resumed".to_owned() } else { "was not paused".to_owned() }
        })?;
    }
    Ok(Verdict::Fine)
}

/// Holds a queue, or a group of it.
pub(super) async fn hold(client: &Client, form: &Form, arguments: HoldArguments) -> Result<Verdict, Failure> {
    let HoldArguments { name, hold_for: DurationArgument(hold_for), group } = arguments;
    let handle = client.queue(&name);
    let before = handle.settings().await?;
    match group {
        Some(group) => {
            handle.hold_group(&group, hold_for).actor(own_name()).await?;
            let line = json!({ "queue": name, "group": group, "seconds": hold_for.as_secs_f64() });
            print_group(&name, &group, form.json, line, &format!("is held for {}", DurationArgument(hold_for)))?;
        }
        None => {
            let settings = handle.hold(hold_for).actor(own_name()).await?;
            print_settings(&settings, None, form.json, |settings| match settings.held_until {
                Some(until) => format!("is held until {}; running jobs are finished", format_time(until)),
                None => "is not held".to_owned(),
            })?;
        }
    }
    note_unknown_queue(client, &before).await;
    Ok(Verdict::Fine)
}

/// Prints what a command did to a group.
fn print_group(name: &str, group: &str, json: bool, line: Value, text: &str) -> Result<(), Failure> {
    if json {
        return output::print_json_line(&line);
    }
    output::print_message(&format!("group {} of queue {} {text}\n", printable(group), printable(name)))
}
