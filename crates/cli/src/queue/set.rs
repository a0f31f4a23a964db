//! `uniqueue queue pause|resume|limit|retention`.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use uniqueue::{Client, JobState, Keep, QueueInfo, QueueSettings};

use crate::ask::ask;
use crate::database::DatabaseArguments;
use crate::failure::Failure;
use crate::output::{self, format_duration, format_time, printable};
use crate::own_name::own_name;
use crate::time_argument::DurationArgument;
use crate::verdict::Verdict;

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

    #[command(flatten)]
    database: DatabaseArguments,
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

    #[command(flatten)]
    database: DatabaseArguments,
}

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

    #[command(flatten)]
    database: DatabaseArguments,
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

    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum YesOrNo {
    Yes,
    No,
}

/// A limit on the command line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit(pub(super) Option<u32>);

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

/// Pauses queues.
pub(super) async fn pause(arguments: PauseArguments) -> Result<Verdict, Failure> {
    let PauseArguments { names, reason, database } = arguments;
    ask(&database, async |client, form| {
        for name in &names {
            let mut tx = client.pool().begin().await?;
            let before = client.queue(name).settings().tx(&mut tx).await?;
            let pause = client.queue(name).pause().actor(own_name());
            let pause = reason.iter().fold(pause, |pause, reason| pause.reason(reason));
            let settings = pause.tx(&mut tx).await?;
            tx.commit().await?;
            print_change(&settings, before.paused_at.is_none(), form.json, |settings| {
                match (before.paused_at, settings.paused_at) {
                    (Some(since), _) => format!("was paused already, since {}", format_time(since)),
                    (None, Some(_)) => "is paused; running jobs are finished".to_owned(),
                    (None, None) => "is not paused".to_owned(),
                }
            })?;
            note_unknown_queue(client, &before).await;
        }
        Ok(Verdict::Fine)
    })
    .await
}

/// Resumes queues.
pub(super) async fn resume(arguments: ResumeArguments) -> Result<Verdict, Failure> {
    let ResumeArguments { names, group, database } = arguments;
    ask(&database, async |client, form| {
        for name in &names {
            if let Some(group) = &group {
                let changed = client.queue(name).resume_group(group).actor(own_name()).await?;
                let text = if changed { "is resumed" } else { "was not held" };
                print_group(
                    name,
                    group,
                    form.json,
                    json!({ "queue": name, "group": group, "changed": changed }),
                    text,
                )?;
                continue;
            }
            let mut tx = client.pool().begin().await?;
            let before = client.queue(name).settings().tx(&mut tx).await?;
            let settings = client.queue(name).resume().actor(own_name()).tx(&mut tx).await?;
            tx.commit().await?;
            let changed = before.paused_at.is_some() || before.held_until.is_some();
            print_change(&settings, changed, form.json, |_| {
                if changed { "is resumed".to_owned() } else { "was not paused".to_owned() }
            })?;
        }
        Ok(Verdict::Fine)
    })
    .await
}

/// Limits a queue.
pub(super) async fn limit(arguments: LimitArguments) -> Result<Verdict, Failure> {
    let LimitArguments { name, limit, per_group, fair, database } = arguments;
    ask(&database, async |client, form| {
        let handle = client.queue(&name);
        let mut tx = client.pool().begin().await?;
        let before = handle.settings().tx(&mut tx).await?;
        let mut settings = before.clone();
        if let Some(Limit(limit)) = limit {
            let change = if per_group { handle.group_limit(limit) } else { handle.limit(limit) };
            settings = change.actor(own_name()).tx(&mut tx).await?;
        }
        if let Some(fair) = fair {
            settings = handle.fair(matches!(fair, YesOrNo::Yes)).actor(own_name()).tx(&mut tx).await?;
        }
        tx.commit().await?;
        print_settings(&settings, form.json, |settings| limits(settings, limit.is_some(), per_group, fair.is_some()))?;
        note_unknown_queue(client, &before).await;
        Ok(Verdict::Fine)
    })
    .await
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

/// Sets or shows how long jobs are kept.
pub(super) async fn retention(arguments: RetentionArguments) -> Result<Verdict, Failure> {
    let RetentionArguments { name, completed, cancelled, discarded, as_runners_say, database } = arguments;
    ask(&database, async |client, form| {
        let handle = client.queue(&name);
        let mut tx = client.pool().begin().await?;
        let before = handle.settings().tx(&mut tx).await?;
        let is_change = as_runners_say || [completed, cancelled, discarded].iter().any(Option::is_some);
        let mut settings = match as_runners_say {
            true => handle.retention(None).actor(own_name()).tx(&mut tx).await?,
            false => before.clone(),
        };
        for (state, given) in
            [(JobState::Completed, completed), (JobState::Cancelled, cancelled), (JobState::Discarded, discarded)]
        {
            if let Some(KeepArgument(keep)) = given {
                settings = handle.keep(state, keep).actor(own_name()).tx(&mut tx).await?;
            }
        }
        tx.commit().await?;
        print_settings(&settings, form.json, |settings| {
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
        })?;
        if is_change {
            note_unknown_queue(client, &before).await;
        }
        Ok(Verdict::Fine)
    })
    .await
}

/// Prints a note if a queue had no settings, no live runner and no recent job: its name may be a typing error. This runs
/// after the change is made and printed, so that a slow or failing check does not affect it.
pub(super) async fn note_unknown_queue(client: &Client, before: &QueueSettings) {
    let kept = [before.keep_completed, before.keep_cancelled, before.keep_discarded];
    let was_set = before.paused_at.is_some()
        || before.limit.is_some()
        || before.group_limit.is_some()
        || before.max_waiting.is_some()
        || before.fair
        || before.rate.is_some()
        || before.group_rate.is_some()
        || before.held_until.is_some()
        || kept != [Keep::AsRunnersSay; 3];
    if was_set {
        return;
    }
    let Ok(queues) = client.queues().count_up_to(1).await else { return };
    let has_jobs = |queue: &QueueInfo| JobState::ALL.iter().any(|state| queue.count(*state).counted() > 0);
    let is_this = |queue: &&QueueInfo| queue.settings.name == before.name;
    if !queues.iter().find(is_this).is_some_and(|queue| queue.runners > 0 || has_jobs(queue)) {
        output::print_to_stderr(&format!(
            "note: this queue has no live runner and no recent job; is its name right? {:?}",
            before.name.as_str()
        ));
    }
}

/// The settings of a queue, and whether the command changed them.
#[derive(Serialize)]
struct Changed<'a> {
    #[serde(flatten)]
    settings: &'a QueueSettings,
    changed: bool,
}

/// Prints the settings of a queue, and with JSON whether the command changed them.
fn print_change(
    settings: &QueueSettings,
    changed: bool,
    json: bool,
    text: impl Fn(&QueueSettings) -> String,
) -> Result<(), Failure> {
    match json {
        true => output::print_json_line(&Changed { settings, changed }),
        false => print_settings(settings, false, text),
    }
}

/// Prints what a command did to a group.
pub(super) fn print_group(name: &str, group: &str, json: bool, line: Value, text: &str) -> Result<(), Failure> {
    if json {
        return output::print_json_line(&line);
    }
    output::print_message(&format!("group {} of queue {} {text}\n", printable(group), printable(name)))
}

/// Prints the settings of a queue.
pub(super) fn print_settings(
    settings: &QueueSettings,
    json: bool,
    text: impl Fn(&QueueSettings) -> String,
) -> Result<(), Failure> {
    if json {
        return output::print_json_line(settings);
    }
    output::print_message(&format!("queue {} {}\n", printable(settings.name.as_str()), text(settings)))
}
