//! `uniqueue periodic`: the jobs that schedules insert.

use uniqueue::{Call, CatchUp, PeriodicJob};
use uniqueue_admin::{Periodic, PeriodicChange, PeriodicRow, PeriodicRun, PeriodicSource};

use crate::arguments::expires_in_or_never;
use crate::prelude::*;

/// List, add, change, run, pause, resume and remove periodic jobs.
///
/// Examples:
///   uniqueue periodic list
///   uniqueue periodic add daily-digest digest.send '0 9 * * MON-FRI' --time-zone Europe/Berlin
///   uniqueue periodic set daily-digest --schedule '0 10 * * MON-FRI'
///   uniqueue periodic run daily-digest
///   uniqueue periodic pause daily-digest
///
/// Exit codes:
///   1    no periodic job has that name; add: one has it
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PeriodicArguments {
    #[command(subcommand)]
    command: PeriodicCommand,

    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Debug, Subcommand)]
enum PeriodicCommand {
    /// List the periodic jobs and when each is due
    ///
    /// ***
    ///
    /// With --json it prints one periodic job a line. The member `problem` says why a job cannot run.
    ///
    /// Examples:
    ///   uniqueue periodic list
    ///   uniqueue periodic list --json | jq -r 'select(.problem) | .name'
    #[command(verbatim_doc_comment)]
    List,

    Add(AddArguments),
    Set(SetArguments),
    /// Insert one of its jobs at once, outside of the schedule
    ///
    /// A paused one can be run too. If its jobs have a unique key of their own and another job holds the key, the answer is
    /// that job. With --json it prints {"name", "job", "duplicate"}.
    ///
    /// Examples:
    ///   uniqueue periodic run daily-digest
    ///
    /// Exit codes:
    ///   0    inserted, or a duplicate of the job that is printed
    ///   1    no periodic job has that name
    #[command(verbatim_doc_comment)]
    Run(NameArguments),

    /// Pause the schedule
    ///
    /// Jobs that were inserted before are worked. With --json it prints {"name", "is": "paused"}.
    ///
    /// Examples:
    ///   uniqueue periodic pause daily-digest
    ///
    /// Exit codes:
    ///   1    no periodic job has that name
    #[command(verbatim_doc_comment)]
    Pause(NameArguments),

    /// Resume the schedule from now on
    ///
    /// Slots that passed during the pause are skipped. With --json it prints {"name", "is": "resumed"}.
    ///
    /// Examples:
    ///   uniqueue periodic resume daily-digest
    ///
    /// Exit codes:
    ///   1    no periodic job has that name
    #[command(verbatim_doc_comment)]
    Resume(NameArguments),

    /// Remove the schedule; its jobs stay
    ///
    /// A definition in code returns at the next start of a runner that has it, so pause that one instead. With --json it
    /// prints {"name", "is": "removed"}.
    ///
    /// Examples:
    ///   uniqueue periodic remove daily-digest
    ///
    /// Exit codes:
    ///   1    no periodic job has that name
    #[command(verbatim_doc_comment)]
    Remove(NameArguments),
}

/// The name of the periodic job that a command is about.
#[derive(Debug, Args)]
struct NameArguments {
    /// The name of the periodic job
    #[arg(value_name = "NAME")]
    name: String,
}

/// Runs a command about periodic jobs.
pub(crate) async fn run(PeriodicArguments { command, database }: PeriodicArguments) -> Result<Verdict, Failure> {
    let (change, word, name): (Change, _, _) = match command {
        PeriodicCommand::List => return ask_each(&database, list).await,
        PeriodicCommand::Add(arguments) => return add(arguments, &database).await,
        PeriodicCommand::Set(arguments) => return set(arguments, &database).await,
        PeriodicCommand::Run(of) => {
            return ask(&database, async |client, form| run_now(client, form, &of.name).await).await;
        }
        PeriodicCommand::Pause(of) => (|periodic, name| periodic.pause(name), "paused", of.name),
        PeriodicCommand::Resume(of) => (|periodic, name| periodic.resume(name), "resumed", of.name),
        PeriodicCommand::Remove(of) => (|periodic, name| periodic.remove(name), "removed", of.name),
    };
    ask(&database, async |client, form| {
        if !change(&Admin::new(client).periodic(), &name).actor(own_name()).await? {
            return Ok(unknown(&name));
        }
        let text = format!("periodic job {} is {word}\n", printable(&name));
        form.message(&json!({ "name": name, "is": word }), text)
    })
    .await
}

/// A change of a periodic job, by its name. It answers whether there is one.
type Change = for<'a> fn(&Periodic<'a>, &str) -> Call<'a, bool>;

async fn list(client: Client, form: Form) -> Result<Answer, Failure> {
    let rows = Admin::new(&client).periodic().list().await?;
    let now = client.database_time().await?;
    form.list(&rows, |rows| table(rows, now))
}

fn table(rows: &[PeriodicRow], now: OffsetDateTime) -> Table {
    let has_problems = rows.iter().any(|row| row.problem.is_some());
    List::of(rows)
        .column(Column::long("name"), |row| &row.name)
        .column(Column::text("schedule"), |row| &row.schedule)
        .column(Column::text("zone").optional(), |row| &row.time_zone)
        .column(Column::text("next"), |row| match (&row.problem, row.paused_at, row.next_at) {
            (Some(_), ..) => Cell::new("cannot run").style(Style::Bad),
            (None, Some(since), _) => Cell::new(format!("paused {}", format_relative(since, now))).style(Style::Warn),
            (None, None, Some(next)) => Cell::new(format_relative(next, now)),
            (None, None, None) => Cell::new("unknown").style(Style::Faint),
        })
        .column(Column::text("last"), |row| row.last_at.map_or_else(String::new, |last| format_relative(last, now)))
        .column(Column::long("kind").optional(), |row| &row.kind)
        .column(Column::long("queue").optional(), |row| &row.queue)
        .column(
            Column::text("from").optional(),
            |row| {
                if row.source == PeriodicSource::Code { "code" } else { "database" }
            },
        )
        .column_if(has_problems, Column::why("problem"), |row| row.problem.as_deref().unwrap_or_default())
        .table()
}

async fn run_now(client: &Client, form: Form, name: &str) -> Result<Answer, Failure> {
    let run = Admin::new(client).periodic().run_now(name).actor(own_name()).await?;
    let Some(PeriodicRun { job, duplicate, .. }) = run else { return Ok(unknown(name)) };
    let text = match duplicate {
        true => format!("duplicate, nothing was inserted: the key is held by job {job}\n"),
        false => format!("inserted job {job}\n"),
    };
    form.message(&json!({ "name": name, "job": job, "duplicate": duplicate }), text)
}

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
struct AddArguments {
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
struct SetArguments {
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
async fn add(arguments: AddArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
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
async fn set(arguments: SetArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
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
fn unknown(name: &str) -> Answer {
    Answer::not_fine(format!("no such periodic job: {name:?}; `uniqueue periodic list` lists them"))
}
