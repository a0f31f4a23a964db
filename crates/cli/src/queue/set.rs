//! `uniqueue queue limit|max-waiting|rate|retention`.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use uniqueue::{Client, JobState, Keep, QueueChanges, QueueSettings, Rate};
use uniqueue_admin::{Admin, Given, QueueInfo};

use crate::exit::{Failure, Verdict};
use crate::output::{self, Form, count, format_duration, printable};
use crate::own_name::own_name;
use crate::time_argument::DurationArgument;

/// Limit how many of a queue's jobs, or of each of its groups, run at once, over all runners.
///
/// With --per-group the limit is that of each group. --fair lets groups, and the jobs without a group as one more, take
/// turns within a priority. Running jobs are finished. Fetches from a limited queue wait for each other, so a limit suits queues that run few jobs at
/// once.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json it prints one object: {\"name\", \"paused_at\", \"limit\", \"keep_completed\", …}.

Examples:
  uniqueue queue limit geocoding 5
  uniqueue queue limit geocoding none
  uniqueue queue limit emails 3 --per-group
  uniqueue queue limit emails --fair yes")]
pub(super) struct LimitArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// The limit, at least 1; none: as many as the runners have slots for
    #[arg(value_name = "N", required_unless_present = "fair")]
    limit: Option<Limit>,

    /// The limit is that of each group; none: as many as the jobs themselves allow
    #[arg(long, requires = "limit")]
    per_group: bool,

    /// Whether groups, and the jobs without a group as one more, take turns
    #[arg(long, value_name = "YES|NO")]
    fair: Option<YesOrNo>,
}

/// Set or show how long a queue's final jobs are kept.
///
/// Without options it shows the retention. A state that is not given keeps its retention, at first that of the runners: a
/// day for completed and cancelled jobs and a week for discarded jobs, unless configured. Zero deletes completed jobs as they
/// complete. A job whose claim has a deadline is kept until then. Runners apply a change after their next heartbeat.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json it prints one object: {\"name\", \"paused_at\", \"limit\", \"keep_completed\", \"keep_cancelled\",
\"keep_discarded\"}. A retention is a number of seconds, \"forever\", or null for that of the
runners.

Examples:
  uniqueue queue retention emails
  uniqueue queue retention emails --completed 1h --discarded 30d
  uniqueue queue retention pings --completed 0s
  uniqueue queue retention audits --completed forever --cancelled forever --discarded forever
  uniqueue queue retention emails --as-runners-say")]
pub(super) struct RetentionArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// How long completed jobs are kept: such as 12h; forever; or runners, for the runners' retention
    #[arg(long, value_name = "DURATION")]
    completed: Option<KeepArgument>,

    /// How long cancelled jobs are kept
    #[arg(long, value_name = "DURATION")]
    cancelled: Option<KeepArgument>,

    /// How long discarded jobs are kept
    #[arg(long, value_name = "DURATION")]
    discarded: Option<KeepArgument>,

    /// Use the runners' retention for all of them, as before anything was set
    #[arg(long, conflicts_with_all = ["completed", "cancelled", "discarded"])]
    as_runners_say: bool,
}

/// Limit how many available jobs a queue may have.
///
/// An insert that would exceed the limit is refused. Available jobs are due and not started. Scheduled, retryable and pending
/// jobs do not count. Duplicates are answered as ever. Retries, releases, scheduled jobs whose time comes and periodic jobs are
/// never refused, and jobs that wait already stay.
///
/// The first limit of a schema, and removing the last one, wait up to 7 seconds for open transactions that write jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json it prints one object: {\"name\", \"paused_at\", \"limit\", \"max_waiting\", …}.

Examples:
  uniqueue queue max-waiting imports 10000
  uniqueue queue max-waiting imports none")]
pub(super) struct MaxWaitingArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// The limit, at least 1; none: any number
    #[arg(value_name = "N")]
    limit: Limit,
}

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
}

/// A rate on the command line.
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum YesOrNo {
    Yes,
    No,
}

/// A limit on the command line.
#[derive(Clone, Copy, Debug)]
struct Limit(Option<u32>);

impl FromStr for Limit {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, &'static str> {
        match given {
            "none" => Ok(Self(None)),
            number => number.parse().map(|limit| Self(Some(limit))).map_err(|_| "expected a number, or none"),
        }
    }
}

/// A retention on the command line.
#[derive(Clone, Copy, Debug)]
struct KeepArgument(Keep);

impl FromStr for KeepArgument {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        match given {
            "forever" => Ok(Self(Keep::Forever)),
            "runners" => Ok(Self(Keep::AsRunnersSay)),
            length => match length.parse() {
                Ok(DurationArgument(length)) => Ok(Self(Keep::For(length))),
                Err(error) => Err(format!("{error}, or forever, or runners")),
            },
        }
    }
}

/// Limits a queue.
pub(super) async fn limit(client: &Client, form: &Form, arguments: LimitArguments) -> Result<Verdict, Failure> {
    let LimitArguments { name, limit, per_group, fair } = arguments;
    let set_limit = if per_group { QueueChanges::group_limit } else { QueueChanges::limit };
    let changes = QueueChanges::new()
        .given(limit, |changes, Limit(limit)| set_limit(changes, limit))
        .given(fair, |changes, fair| changes.fair(matches!(fair, YesOrNo::Yes)));
    let text = |settings: &QueueSettings| limits(settings, limit.is_some(), per_group, fair.is_some());
    set(client, form, &name, changes, text).await
}

/// The queue's new settings, in words.
fn limits(settings: &QueueSettings, is_limit: bool, per_group: bool, is_fair: bool) -> String {
    let limit = match (settings.limit, settings.group_limit) {
        (_, Some(1)) if per_group => "runs 1 job of each group at once, over all runners".to_owned(),
        (_, Some(limit)) if per_group => format!("runs up to {limit} jobs of each group at once, over all runners"),
        (_, None) if per_group => "has no limit for its groups but the jobs' own".to_owned(),
        (Some(1), _) => "runs 1 job at once, over all runners".to_owned(),
        (Some(limit), _) => format!("runs up to {limit} jobs at once, over all runners"),
        (None, _) => "has no limit but the runners' own".to_owned(),
    };
    let fair = if settings.fair { "lets its groups take turns" } else { "does not let its groups take turns" };
    match (is_limit, is_fair) {
        (true, true) => format!("{limit}, and {fair}"),
        (_, false) => limit,
        (false, true) => fair.to_owned(),
    }
}

/// Limits how many jobs of a queue wait.
pub(super) async fn max_waiting(
    client: &Client,
    form: &Form,
    arguments: MaxWaitingArguments,
) -> Result<Verdict, Failure> {
    let MaxWaitingArguments { name, limit: Limit(limit) } = arguments;
    set(client, form, &name, QueueChanges::new().max_waiting(limit), |settings| match settings.max_waiting {
        Some(1) => "takes inserts until 1 job waits".to_owned(),
        Some(limit) => format!("takes inserts until {} jobs wait", count(u64::from(limit))),
        None => "takes inserts however many jobs wait".to_owned(),
    })
    .await
}

/// Sets the rate of a queue.
pub(super) async fn rate(client: &Client, form: &Form, arguments: RateArguments) -> Result<Verdict, Failure> {
    let RateArguments { name, rate: RateArgument(rate), burst, per_group } = arguments;
    let rate = rate.map(|rate| rate.burst(burst.unwrap_or(rate.burst)));
    let changes = QueueChanges::new();
    let changes = if per_group { changes.group_rate(rate) } else { changes.rate(rate) };
    let jobs = if per_group { "jobs of each group" } else { "jobs" };
    set(client, form, &name, changes, |settings| match if per_group { settings.group_rate } else { settings.rate } {
        Some(rate) => format!("starts {jobs} at a rate of {rate}, over all runners"),
        None => format!("starts {jobs} at any rate"),
    })
    .await
}

/// Sets or shows how long jobs are kept.
pub(super) async fn retention(client: &Client, form: &Form, arguments: RetentionArguments) -> Result<Verdict, Failure> {
    let RetentionArguments { name, completed, cancelled, discarded, as_runners_say } = arguments;
    let all = as_runners_say.then_some(KeepArgument(Keep::AsRunnersSay));
    let changes = QueueChanges::new()
        .given(completed.or(all), |changes, KeepArgument(keep)| changes.keep_completed(keep))
        .given(cancelled.or(all), |changes, KeepArgument(keep)| changes.keep_cancelled(keep))
        .given(discarded.or(all), |changes, KeepArgument(keep)| changes.keep_discarded(keep));
    set(client, form, &name, changes, |settings| {
        let kept = [settings.keep_completed, settings.keep_cancelled, settings.keep_discarded];
        if kept == [Keep::AsRunnersSay; 3] {
            return "keeps its final jobs as the runners are configured".to_owned();
        }
        let [completed, cancelled, discarded] = kept.map(|keep| match keep {
            Keep::AsRunnersSay => "as the runners are configured".to_owned(),
            Keep::Forever => "forever".to_owned(),
            Keep::For(length) => format_duration(length),
        });
        format!("keeps completed jobs {completed}, cancelled ones {cancelled}, discarded ones {discarded}")
    })
    .await
}

/// Changes the settings of a queue, and prints them. Without changes it prints them.
async fn set(
    client: &Client,
    form: &Form,
    name: &str,
    changes: QueueChanges,
    text: impl Fn(&QueueSettings) -> String,
) -> Result<Verdict, Failure> {
    let queue = client.queue(name);
    let before = queue.settings().await?;
    if changes.is_empty() {
        print_settings(&before, None, form.json, text)?;
        return Ok(Verdict::Fine);
    }
    print_settings(&queue.set(changes).actor(own_name()).await?, None, form.json, text)?;
    note_unknown_queue(client, &before).await;
    Ok(Verdict::Fine)
}

/// Prints a note if a queue had no settings, no live runner and no recent job: its name may be a typing error. This runs
/// after the change is made and printed, so that a slow or failing check does not affect it.
pub(super) async fn note_unknown_queue(client: &Client, before: &QueueSettings) {
    let is_set = |(setting, value): (&String, &Value)| setting != "name" && !value.is_null() && *value != json!(false);
    if json!(before).as_object().is_some_and(|settings| settings.iter().any(is_set)) {
        return;
    }
    let Ok(queues) = Admin::new(client).queues().count_up_to(1).await else { return };
    let has_jobs = |queue: &QueueInfo| JobState::ALL.iter().any(|state| queue.count(*state).counted() > 0);
    let is_this = |queue: &&QueueInfo| queue.settings.name == before.name;
    if !queues.iter().find(is_this).is_some_and(|queue| queue.runners > 0 || has_jobs(queue)) {
        output::print_to_stderr(&format!(
            "note: this queue has no live runner and no recent job; is its name right? {:?}",
            before.name.as_str()
        ));
    }
}

/// Prints the settings of a queue, and with JSON whether the command changed them where that is known.
pub(super) fn print_settings(
    settings: &QueueSettings,
    changed: Option<bool>,
    json: bool,
    text: impl Fn(&QueueSettings) -> String,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Settings<'a> {
        #[serde(flatten)]
        settings: &'a QueueSettings,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed: Option<bool>,
    }
    if json {
        return output::print_json_line(&Settings { settings, changed });
    }
    output::print_message(&format!("queue {} {}\n", printable(settings.name.as_str()), text(settings)))
}
