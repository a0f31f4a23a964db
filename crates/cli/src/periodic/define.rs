//! `uniqueue periodic add` and `uniqueue periodic set`.

use clap::{Args, ValueEnum};
use uniqueue::{CatchUp, NewJob, PeriodicChange, PeriodicJob, PeriodicSource};

use super::unknown::unknown;
use crate::database::{Database, DatabaseArguments};
use crate::failure::Failure;
use crate::json_argument::JsonArgument;
use crate::output::{self, printable};
use crate::policy_argument::PolicyArgument;
use crate::time_argument::DurationArgument;
use crate::verdict::Verdict;

/// Add a periodic job
///
/// A runner inserts its jobs, whatever queues that runner works. With --json it prints the periodic job as `periodic list` does.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  uniqueue periodic add daily-digest digest.send '0 9 * * MON-FRI' --time-zone Europe/Berlin
  uniqueue periodic add sweep cache.sweep PT15M --args '{\"depth\": 2}' --catch-up skip

Exit codes:
  0    added
  1    a periodic job has that name: `uniqueue periodic set` changes it
  2    a wrong command line, an invalid schedule, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end")]
pub(super) struct AddArguments {
    /// The name of the periodic job
    #[arg(value_name = "NAME")]
    name: String,

    /// The kind of its jobs
    #[arg(value_name = "KIND")]
    kind: String,

    /// A cron expression of five fields, or six with seconds first; or an interval such as PT15M
    #[arg(value_name = "SCHEDULE")]
    schedule: String,

    /// A unique policy of its jobs: a slot that meets a holder of the key is skipped
    #[arg(long, value_name = "JSON|FILE")]
    policy: Option<PolicyArgument>,

    #[command(flatten)]
    options: Options,

    #[command(flatten)]
    database: DatabaseArguments,
}

/// Change a periodic job
///
/// The command changes only the settings that it names. Another schedule or time zone begins anew: the next slot is
/// the first one from now on. A definition in code comes back with the next start of a runner that has it. With
/// --json it prints the periodic job as `periodic list` does.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  uniqueue periodic set daily-digest --schedule '0 10 * * MON-FRI'
  uniqueue periodic set daily-digest --time-zone Europe/Paris --queue slow

Exit codes:
  0    changed
  1    no periodic job has that name
  2    a wrong command line, an invalid schedule, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end")]
pub(super) struct SetArguments {
    /// The name of the periodic job
    #[arg(value_name = "NAME")]
    name: String,

    /// The kind of its jobs
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// A cron expression of five fields, or six with seconds first; or an interval such as PT15M
    #[arg(long, value_name = "SCHEDULE")]
    schedule: Option<String>,

    #[command(flatten)]
    options: Options,

    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Debug, Args)]
struct Options {
    /// The IANA time zone of a cron expression [a new one: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,

    /// How to treat slots that passed without a live runner [a new one: latest]
    #[arg(long, value_name = "WHICH")]
    catch_up: Option<CatchUpArgument>,

    /// The args of its jobs; also @FILE, or - for standard input [a new one: {}]
    #[arg(long, value_name = "JSON")]
    args: Option<JsonArgument>,

    /// The queue of its jobs [a new one: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// The priority of its jobs, higher runs first [a new one: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,

    /// The number of attempts of each of its jobs [a new one: 25]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u16>,

    /// The time in which each of its jobs must start; 0s: any time [a new one: as its registered kind says, else any]
    #[arg(long, value_name = "DURATION")]
    expires_in: Option<DurationArgument>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CatchUpArgument {
    /// None of them
    Skip,
    /// The last one
    Latest,
    /// Each, up to the latest 1,000
    All,
}

impl From<CatchUpArgument> for CatchUp {
    fn from(given: CatchUpArgument) -> Self {
        match given {
            CatchUpArgument::Skip => Self::Skip,
            CatchUpArgument::Latest => Self::Latest,
            CatchUpArgument::All => Self::All,
        }
    }
}

/// Adds a periodic job.
pub(super) async fn add(arguments: AddArguments) -> Result<Verdict, Failure> {
    let AddArguments { name, kind, schedule, policy, options, database } = arguments;
    let Options { time_zone, catch_up, args, queue, priority, max_attempts, expires_in } = options;
    let args = args.unwrap_or(JsonArgument::Text("{}".to_owned())).raw("--args")?;
    let mut job = NewJob::from_json(kind, args);
    if let Some(queue) = queue {
        job = job.queue(queue);
    }
    if let Some(priority) = priority {
        job = job.priority(priority);
    }
    if let Some(max_attempts) = max_attempts {
        job = job.max_attempts(max_attempts);
    }
    if let Some(DurationArgument(length)) = expires_in {
        job = if length.is_zero() { job.never_expires() } else { job.expires_in(length) };
    }
    if let Some(policy) = policy {
        job = job.unique(policy.policy()?);
    }
    let mut periodic = PeriodicJob::cron(&name, schedule, job);
    if let Some(time_zone) = time_zone {
        periodic = periodic.time_zone(time_zone);
    }
    if let Some(catch_up) = catch_up {
        periodic = periodic.catch_up(catch_up.into());
    }
    let json = database.json;
    let database = Database::open_migrated(&database).await?;
    if database.client.periodic().find(&name).await?.is_some() {
        database.close().await?;
        output::print_to_stderr(&format!("periodic job {name:?} exists; `uniqueue periodic set` changes it"));
        return Ok(Verdict::NotFine);
    }
    database.client.periodic().define(periodic).await?;
    print(database, &name, "added", json).await
}

/// Changes a periodic job.
pub(super) async fn set(arguments: SetArguments) -> Result<Verdict, Failure> {
    let SetArguments { name, kind, schedule, options, database } = arguments;
    let Options { time_zone, catch_up, args, queue, priority, max_attempts, expires_in } = options;
    let mut change = PeriodicChange::new();
    if let Some(kind) = kind {
        change = change.kind(kind);
    }
    if let Some(schedule) = schedule {
        change = change.schedule(schedule);
    }
    if let Some(time_zone) = time_zone {
        change = change.time_zone(time_zone);
    }
    if let Some(catch_up) = catch_up {
        change = change.catch_up(catch_up.into());
    }
    if let Some(args) = args {
        change = change.args(args.raw("--args")?);
    }
    if let Some(queue) = queue {
        change = change.queue(queue);
    }
    if let Some(priority) = priority {
        change = change.priority(priority);
    }
    if let Some(max_attempts) = max_attempts {
        change = change.max_attempts(max_attempts);
    }
    if let Some(DurationArgument(length)) = expires_in {
        change = change.expires_in(length);
    }
    let json = database.json;
    let database = Database::open_migrated(&database).await?;
    if !database.client.periodic().set(&name, change).await? {
        database.close().await?;
        return Ok(unknown(&name));
    }
    print(database, &name, "changed", json).await
}

/// Prints the periodic job as it is now.
async fn print(database: Database, name: &str, word: &str, json: bool) -> Result<Verdict, Failure> {
    let row = database.client.periodic().find(name).await?;
    database.close().await?;
    if json {
        output::print_json(&row)?;
        return Ok(Verdict::Fine);
    }
    output::print(&format!("periodic job {} is {word}\n", printable(name)))?;
    if row.is_some_and(|row| row.source == PeriodicSource::Code) {
        output::print_to_stderr("it is defined in code: the next start of a runner that defines it undoes the change");
    }
    Ok(Verdict::Fine)
}
