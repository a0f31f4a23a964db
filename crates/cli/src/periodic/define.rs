//! `uniqueue periodic add` and `uniqueue periodic set`.

use clap::{Args, ValueEnum};
use uniqueue::{CatchUp, Client, NewJob, PeriodicJob};
use uniqueue_admin::{Admin, Given, PeriodicChange, PeriodicSource};

use crate::database::{DatabaseArguments, ask};
use crate::exit::{Failure, Verdict};
use crate::json_argument::{JsonArgument, PolicyArgument};
use crate::output::{Answer, Form, printable};
use crate::time_argument::{DurationArgument, expires_in_or_never};

/// Add a periodic job
///
/// A runner inserts its jobs, whatever queues that runner works. With --json it prints the periodic job as `periodic list` does.
///
/// Examples:
///   uniqueue periodic add daily-digest digest.send '0 9 * * MON-FRI' --time-zone Europe/Berlin
///   uniqueue periodic add sweep cache.sweep PT15M --args '{"depth": 2}' --catch-up skip
///
/// Exit codes:
///   1    a periodic job has that name: `uniqueue periodic set` changes it
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
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
}

/// Change a periodic job
///
/// The command changes only the settings that it names. Another schedule or time zone begins anew: the next slot is
/// the first one from now on. A definition in code comes back with the next start of a runner that has it. With
/// --json it prints the periodic job as `periodic list` does.
///
/// Examples:
///   uniqueue periodic set daily-digest --schedule '0 10 * * MON-FRI'
///   uniqueue periodic set daily-digest --time-zone Europe/Paris --queue slow
///
/// Exit codes:
///   1    no periodic job has that name
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
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
pub(super) async fn add(arguments: AddArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let AddArguments { name, kind, schedule, policy, options } = arguments;
    let Options { time_zone, catch_up, args, queue, priority, max_attempts, expires_in } = options;
    let args = args.unwrap_or(JsonArgument::Text("{}".to_owned())).raw("--args")?;
    let policy = policy.map(|policy| policy.policy()).transpose()?;
    let job = NewJob::from_json(kind, args)
        .given(queue, NewJob::queue)
        .given(priority, NewJob::priority)
        .given(max_attempts, NewJob::max_attempts)
        .given(expires_in, expires_in_or_never)
        .given(policy, NewJob::unique);
    let periodic = PeriodicJob::cron(&name, schedule, job)
        .given(time_zone, PeriodicJob::time_zone)
        .given(catch_up, |periodic, catch_up| periodic.catch_up(catch_up.into()));
    ask(database, async |client, form| {
        if Admin::new(client).periodic().find(&name).await?.is_some() {
            let note = format!("periodic job {name:?} exists; `uniqueue periodic set` changes it");
            return Ok(Answer::not_fine(note));
        }
        client.define_periodic(periodic).await?;
        answer(client, form, &name, "added").await
    })
    .await
}

/// Changes a periodic job.
pub(super) async fn set(arguments: SetArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let SetArguments { name, kind, schedule, options } = arguments;
    let Options { time_zone, catch_up, args, queue, priority, max_attempts, expires_in } = options;
    let args = args.map(|args| args.raw("--args")).transpose()?;
    let change = PeriodicChange::new()
        .given(kind, PeriodicChange::kind)
        .given(schedule, PeriodicChange::schedule)
        .given(time_zone, PeriodicChange::time_zone)
        .given(catch_up, |change, catch_up| change.catch_up(catch_up.into()))
        .given(args, PeriodicChange::args)
        .given(queue, PeriodicChange::queue)
        .given(priority, PeriodicChange::priority)
        .given(max_attempts, PeriodicChange::max_attempts)
        .given(expires_in, |change, DurationArgument(length)| change.expires_in(length));
    ask(database, async |client, form| match Admin::new(client).periodic().set(&name, change).await? {
        true => answer(client, form, &name, "changed").await,
        false => Ok(unknown(&name)),
    })
    .await
}

/// The periodic job as it is now.
async fn answer(client: &Client, form: Form, name: &str, word: &str) -> Result<Answer, Failure> {
    let row = Admin::new(client).periodic().find(name).await?;
    let mut notes = Vec::new();
    if !form.json && row.as_ref().is_some_and(|row| row.source == PeriodicSource::Code) {
        let note = "it is defined in code: the next start of a runner that defines it undoes the change";
        notes.push(note.to_owned());
    }
    Ok(form.object(&row, |_| format!("periodic job {} is {word}\n", printable(name)))?.notes(notes))
}

/// The answer for a name that no periodic job has.
pub(super) fn unknown(name: &str) -> Answer {
    Answer::not_fine(format!("no such periodic job: {name:?}; `uniqueue periodic list` lists them"))
}
