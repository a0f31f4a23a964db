//! `uniqueue periodic`: the jobs that schedules insert.

mod define;

use clap::{Args, Subcommand};
use serde_json::json;
use time::OffsetDateTime;
use uniqueue::Client;
use uniqueue_admin::{Admin, PeriodicRow, PeriodicRun, PeriodicSource};

use self::define::{AddArguments, SetArguments, unknown};
use crate::database::{DatabaseArguments, ask, ask_each};
use crate::exit::{Failure, Verdict};
use crate::output::{Answer, Cell, Column, Form, List, Style, Table, format_relative, printable};
use crate::own_name::own_name;

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
    let change = match command {
        PeriodicCommand::List => return ask_each(&database, list).await,
        PeriodicCommand::Add(arguments) => return define::add(arguments, &database).await,
        PeriodicCommand::Set(arguments) => return define::set(arguments, &database).await,
        PeriodicCommand::Run(of) => {
            return ask(&database, async |client, form| run_now(client, form, &of.name).await).await;
        }
        PeriodicCommand::Pause(of) => (Change::Pause, of),
        PeriodicCommand::Resume(of) => (Change::Resume, of),
        PeriodicCommand::Remove(of) => (Change::Remove, of),
    };
    ask(&database, async |client, form| make(client, form, change.0, &change.1.name).await).await
}

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

#[derive(Clone, Copy, Debug)]
enum Change {
    Pause,
    Resume,
    Remove,
}

async fn make(client: &Client, form: Form, change: Change, name: &str) -> Result<Answer, Failure> {
    let periodic = Admin::new(client).periodic();
    let (change, word) = match change {
        Change::Pause => (periodic.pause(name), "paused"),
        Change::Resume => (periodic.resume(name), "resumed"),
        Change::Remove => (periodic.remove(name), "removed"),
    };
    if !change.actor(own_name()).await? {
        return Ok(unknown(name));
    }
    let text = format!("periodic job {} is {word}\n", printable(name));
    form.message(&json!({ "name": name, "is": word }), text)
}
