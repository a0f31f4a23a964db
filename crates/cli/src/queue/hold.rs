//! `uniqueue queue hold`.

use clap::Args;
use serde_json::json;

use super::set::{note_unknown_queue, print_group, print_settings};
use crate::ask::ask;
use crate::database::DatabaseArguments;
use crate::failure::Failure;
use crate::output::format_time;
use crate::own_name::own_name;
use crate::time_argument::DurationArgument;
use crate::verdict::Verdict;

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

    #[command(flatten)]
    database: DatabaseArguments,
}

/// Holds a queue, or a group of it.
pub(super) async fn run(arguments: HoldArguments) -> Result<Verdict, Failure> {
    let HoldArguments { name, hold_for: DurationArgument(hold_for), group, database } = arguments;
    ask(&database, async |client, form| {
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
                print_settings(&settings, form.json, |settings| match settings.held_until {
                    Some(until) => format!("is held until {}; running jobs are finished", format_time(until)),
                    None => "is not held".to_owned(),
                })?;
            }
        }
        note_unknown_queue(client, &before).await;
        Ok(Verdict::Fine)
    })
    .await
}
