//! `uniqueue queue rate`.

use std::str::FromStr;

use clap::Args;
use uniqueue::{QueueSettings, Rate};

use super::set::{note_unknown_queue, print_settings};
use crate::ask::ask;
use crate::database::DatabaseArguments;
use crate::failure::Failure;
use crate::own_name::own_name;
use crate::time_argument::DurationArgument;
use crate::verdict::Verdict;

/// Set how many of a queue's jobs, or of each of its groups, start in a time, over all runners.
///
/// Jobs over the rate stay available. In any length of time t, at most the burst and count times t divided by the period
/// start. A start counts whatever becomes of the job.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json it prints one object: {\"name\", \"paused_at\", \"rate\": {\"count\", \"period\", \"burst\"}, \"group_rate\", …}.
A period is a number of seconds.

Examples:
  uniqueue queue rate geocoding 10/1s
  uniqueue queue rate geocoding 10/1s --burst 1
  uniqueue queue rate emails 100/1h --per-group
  uniqueue queue rate geocoding none")]
pub(super) struct RateArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// A count and a period, such as 10/1s or 100/1h; none: any number
    #[arg(value_name = "COUNT/PERIOD")]
    rate: RateArgument,

    /// How many start at once after a time without starts; default: the count. With 1 they are evenly spaced
    #[arg(long, value_name = "N")]
    burst: Option<u32>,

    /// The rate is that of each group
    #[arg(long)]
    per_group: bool,

    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Clone, Copy, Debug)]
struct RateArgument(Option<Rate>);

impl FromStr for RateArgument {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, &'static str> {
        if given == "none" {
            return Ok(Self(None));
        }
        let parsed = given.split_once('/').and_then(|(count, period)| {
            let period: DurationArgument = period.parse().ok()?;
            Some(Rate::per(count.trim().parse().ok()?, period.0))
        });
        parsed.map(|rate| Self(Some(rate))).ok_or("expected a count and a period such as 10/1s, or none")
    }
}

/// Sets the rate of a queue.
pub(super) async fn run(arguments: RateArguments) -> Result<Verdict, Failure> {
    let RateArguments { name, rate: RateArgument(rate), burst, per_group, database } = arguments;
    let rate = rate.map(|rate| rate.burst(burst.unwrap_or(rate.burst)));
    ask(&database, async |client, form| {
        let handle = client.queue(&name);
        let before = handle.settings().await?;
        let change = if per_group { handle.group_rate(rate) } else { handle.rate(rate) };
        let settings = change.actor(own_name()).await?;
        print_settings(&settings, form.json, |settings| sentence(settings, per_group))?;
        note_unknown_queue(client, &before).await;
        Ok(Verdict::Fine)
    })
    .await
}

/// The queue's new rate, in words.
fn sentence(settings: &QueueSettings, per_group: bool) -> String {
    let (rate, jobs) = match per_group {
        true => (settings.group_rate, "jobs of each group"),
        false => (settings.rate, "jobs"),
    };
    match rate {
        Some(rate) => format!("starts {jobs} at a rate of {rate}, over all runners"),
        None => format!("starts {jobs} at any rate"),
    }
}
