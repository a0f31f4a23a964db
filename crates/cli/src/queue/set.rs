//! `uniqueue queue pause|resume|limit|retention`.

use std::str::FromStr;

use clap::Args;
use uniqueue::{Client, JobState, Keep, QueueInfo, QueueSettings};

use crate::Verdict;
use crate::args::QueueArguments;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Span, plain, span, time};

/// Fetch nothing more from queues, on any runner.
///
/// What runs is finished. A queue need not exist: its jobs may come later. One that no live runner works and
/// that has no recent job, whose name may be a slip, is told on standard error. One that is paused already stays paused since then.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json one line a queue: {\"name\", \"paused_at\", \"limit\", and how long it keeps its jobs}.

Examples:
  uniqueue queue pause emails
  uniqueue queue pause emails imports --schema jobs

Exit codes:
  0    paused
  2    a wrong command line, a name that cannot be a queue's, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end")]
pub(super) struct PauseArguments {
    /// The queue, or several
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    #[command(flatten)]
    queue: QueueArguments,
}

/// Fetch from queues again.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json one line a queue: {\"name\", \"paused_at\", \"limit\", and how long it keeps its jobs}.

Examples:
  uniqueue queue resume emails

Exit codes:
  0    resumed, or not paused before
  2    a wrong command line, a name that cannot be a queue's, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end")]
pub(super) struct ResumeArguments {
    /// The queue, or several
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    #[command(flatten)]
    queue: QueueArguments,
}

/// Limit how many of a queue's jobs run at once, over all runners.
///
/// What runs already is finished. Fetches from a limited queue take turns, so a limit is for queues that run few jobs at
/// once.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json one object: {\"name\", \"paused_at\", \"limit\", and how long it keeps its jobs}.

Examples:
  uniqueue queue limit geocoding 5
  uniqueue queue limit geocoding none

Exit codes:
  0    set
  2    a wrong command line, a name that cannot be a queue's, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end")]
pub(super) struct LimitArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// How many, at least 1; none: as many as the runners have slots for
    #[arg(value_name = "N")]
    limit: Limit,

    #[command(flatten)]
    queue: QueueArguments,
}

/// Say how long a queue's final jobs are kept, or show it.
///
/// What is not given stays as it is: at first as the runners say, who keep completed and cancelled jobs a day and discarded
/// ones a week unless told otherwise. Zero deletes completed jobs as they complete. A job whose claim has a deadline is kept
/// until then. Runners know it after their next heartbeat.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json one object: {\"name\", \"paused_at\", \"limit\", \"keep_completed\", \"keep_cancelled\", \"keep_discarded\"};
kept for \"PT1H\", \"forever\", or null: as the runners say.

Examples:
  uniqueue queue retention emails
  uniqueue queue retention emails --completed 1h --discarded 30d
  uniqueue queue retention pings --completed 0s
  uniqueue queue retention audits --completed forever --cancelled forever --discarded forever
  uniqueue queue retention emails --as-runners-say

Exit codes:
  0    set
  2    a wrong command line, a name that cannot be a queue's, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end")]
pub(super) struct RetentionArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// How long completed jobs are kept, such as 12h; forever; runners: as they say
    #[arg(long, value_name = "SPAN")]
    completed: Option<Kept>,

    /// How long cancelled jobs are kept
    #[arg(long, value_name = "SPAN")]
    cancelled: Option<Kept>,

    /// How long discarded jobs are kept
    #[arg(long, value_name = "SPAN")]
    discarded: Option<Kept>,

    /// Leave all of it to the runners, as before anything was set
    #[arg(long, conflicts_with_all = ["completed", "cancelled", "discarded"])]
    as_runners_say: bool,

    #[command(flatten)]
    queue: QueueArguments,
}

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

/// How long something is kept.
#[derive(Clone, Copy, Debug)]
struct Kept(Keep);

impl FromStr for Kept {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        match given {
            "forever" => Ok(Self(Keep::Forever)),
            "runners" => Ok(Self(Keep::AsRunnersSay)),
            length => match length.parse() {
                Ok(Span(length)) => Ok(Self(Keep::For(length))),
                Err(error) => Err(format!("{error}, or forever, or runners")),
            },
        }
    }
}

/// Pauses queues.
pub(super) async fn pause(arguments: PauseArguments) -> Result<Verdict, Failure> {
    let PauseArguments { names, queue } = arguments;
    let database = Database::open_migrated(&queue).await?;
    for name in &names {
        let before = database.client.queue(name).settings().await?;
        let settings = database.client.queue(name).pause().await?;
        tell(&settings, queue.json, |settings| match settings.paused_at {
            Some(since) => format!("is paused since {}; what runs is finished", time(since)),
            None => "is not paused".to_owned(),
        })?;
        doubt(&database.client, &before).await;
    }
    database.close().await?;
    Ok(Verdict::Fine)
}

/// Resumes queues.
pub(super) async fn resume(arguments: ResumeArguments) -> Result<Verdict, Failure> {
    let ResumeArguments { names, queue } = arguments;
    let database = Database::open_migrated(&queue).await?;
    for name in &names {
        let settings = database.client.queue(name).resume().await?;
        tell(&settings, queue.json, |_| "is not paused".to_owned())?;
    }
    database.close().await?;
    Ok(Verdict::Fine)
}

/// Limits a queue.
pub(super) async fn limit(arguments: LimitArguments) -> Result<Verdict, Failure> {
    let LimitArguments { name, limit: Limit(limit), queue } = arguments;
    let database = Database::open_migrated(&queue).await?;
    let before = database.client.queue(&name).settings().await?;
    let settings = database.client.queue(&name).limit(limit).await?;
    tell(&settings, queue.json, |settings| match settings.limit {
        Some(1) => "runs 1 job at once, over all runners".to_owned(),
        Some(limit) => format!("runs up to {limit} jobs at once, over all runners"),
        None => "has no limit but the runners' own".to_owned(),
    })?;
    doubt(&database.client, &before).await;
    database.close().await?;
    Ok(Verdict::Fine)
}

/// Sets how long jobs are kept, or shows it.
pub(super) async fn retention(arguments: RetentionArguments) -> Result<Verdict, Failure> {
    let RetentionArguments { name, completed, cancelled, discarded, as_runners_say, queue } = arguments;
    let database = Database::open_migrated(&queue).await?;
    let handle = database.client.queue(&name);
    let mut tx = database.client.pool().begin().await?;
    let before = handle.settings().tx(&mut tx).await?;
    let is_change = as_runners_say || [completed, cancelled, discarded].iter().any(Option::is_some);
    let mut settings = match as_runners_say {
        true => handle.retention(None).tx(&mut tx).await?,
        false => before.clone(),
    };
    for (state, given) in
        [(JobState::Completed, completed), (JobState::Cancelled, cancelled), (JobState::Discarded, discarded)]
    {
        if let Some(Kept(keep)) = given {
            settings = handle.keep(state, keep).tx(&mut tx).await?;
        }
    }
    tx.commit().await?;
    tell(&settings, queue.json, |settings| {
        let kept = [settings.keep_completed, settings.keep_cancelled, settings.keep_discarded];
        if kept == [Keep::AsRunnersSay; 3] {
            return "keeps its final jobs as the runners say".to_owned();
        }
        let [completed, cancelled, discarded] = kept.map(|keep| match keep {
            Keep::AsRunnersSay => "as the runners say".to_owned(),
            Keep::Forever => "for ever".to_owned(),
            Keep::For(length) => span(length),
        });
        format!("keeps completed jobs {completed}, cancelled ones {cancelled}, discarded ones {discarded}")
    })?;
    if is_change {
        doubt(&database.client, &before).await;
    }
    database.close().await?;
    Ok(Verdict::Fine)
}

/// Notes that nothing was set for a queue before, no live runner works it and no recent job is in it: its name may be a slip. What was
/// asked for is done and told by then, so that it does not wait for this look, nor fail with it.
async fn doubt(client: &Client, before: &QueueSettings) {
    let kept = [before.keep_completed, before.keep_cancelled, before.keep_discarded];
    let was_set = before.paused_at.is_some() || before.limit.is_some() || kept != [Keep::AsRunnersSay; 3];
    if was_set {
        return;
    }
    let Ok(queues) = client.queues().count_up_to(1).await else { return };
    let has_jobs = |queue: &QueueInfo| JobState::ALL.iter().any(|state| queue.count(*state).counted() > 0);
    let is_this = |queue: &&QueueInfo| queue.settings.name == before.name;
    if !queues.iter().find(is_this).is_some_and(|queue| queue.runners > 0 || has_jobs(queue)) {
        output::tell(&format!(
            "note: no live runner works this queue and no recent job is in it; is its name right? {:?}",
            before.name.as_str()
        ));
    }
}

/// Says how a queue is set since.
fn tell(settings: &QueueSettings, json: bool, text: impl Fn(&QueueSettings) -> String) -> Result<(), Failure> {
    if json {
        return output::print_json_line(settings);
    }
    output::print(&format!("queue {} {}\n", plain(settings.name.as_str()), text(settings)))
}
