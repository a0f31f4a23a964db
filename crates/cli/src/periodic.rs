//! `uniqueue periodic`: the jobs that schedules insert.

use clap::{Args, Subcommand};
use time::OffsetDateTime;
use uniqueue::{PeriodicRow, PeriodicRun, PeriodicSource};

use self::define::{AddArguments, SetArguments};
use self::unknown::unknown;
use crate::database::Database;
use crate::database::DatabaseArguments;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table, format_relative, printable};
use crate::own_name::in_own_name;
use crate::verdict::Verdict;

mod define;
mod unknown;

/// List, add, change, run, pause, resume and remove periodic jobs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PeriodicArguments {
    #[command(subcommand)]
    command: PeriodicCommand,
}

#[derive(Debug, Subcommand)]
enum PeriodicCommand {
    List(ListArguments),
    Add(AddArguments),
    Set(SetArguments),
    Run(RunArguments),
    Pause(PauseArguments),
    Resume(ResumeArguments),
    Remove(RemoveArguments),
}

const EXAMPLES: &str = "\
Examples:
  uniqueue periodic list
  uniqueue periodic add daily-digest digest.send '0 9 * * MON-FRI' --time-zone Europe/Berlin
  uniqueue periodic set daily-digest --schedule '0 10 * * MON-FRI'
  uniqueue periodic run daily-digest
  uniqueue periodic pause daily-digest

Exit codes:
  0    done
  1    no periodic job has that name; add: one has it
  2    a wrong command line, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// List the periodic jobs and when each is due.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json it prints one periodic job a line. The member `problem` says why a job cannot run.

Examples:
  uniqueue periodic list
  uniqueue periodic list --json | jq -r 'select(.problem) | .name'

Exit codes:
  0    listed
  2    a wrong command line, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end")]
struct ListArguments {
    #[command(flatten)]
    database: DatabaseArguments,
}

macro_rules! named {
    ($name:ident, $word:literal, $about:literal, $more:literal, $done:literal) => {
        #[derive(Debug, Args)]
        #[command(about = $about, long_about = concat!($about, "\n\n", $more), after_help = concat!(
                    "Examples:\n  uniqueue periodic ", $word, " daily-digest\n\nExit codes:\n  0    ", $done,
                    "\n  1    no periodic job has that name\n  2    a wrong command line, or the database failed\n  \
             130  interrupted by Ctrl-C or SIGTERM before the end"
                ))]
        struct $name {
            /// The name of the periodic job
            #[arg(value_name = "NAME")]
            name: String,

            #[command(flatten)]
            database: DatabaseArguments,
        }
    };
}

named!(
    RunArguments,
    "run",
    "Insert one of its jobs at once, outside of the schedule",
    "A paused one can be run too. If its jobs have a unique key of their own and another job holds the key, the answer is \
     that job. With --json it prints {\"name\", \"job\", \"duplicate\"}.",
    "inserted, or a duplicate of the job that is printed"
);
named!(
    PauseArguments,
    "pause",
    "Pause the schedule",
    "Jobs that were inserted before are worked. With --json it prints {\"name\", \"is\": \"paused\"}.",
    "paused"
);
named!(
    ResumeArguments,
    "resume",
    "Resume the schedule from now on",
    "Slots that passed during the pause are skipped. With --json it prints {\"name\", \"is\": \"resumed\"}.",
    "resumed"
);
named!(
    RemoveArguments,
    "remove",
    "Remove the schedule; its jobs stay",
    "A definition in code returns at the next start of a runner that has it, so pause that one instead. With --json it \
     prints {\"name\", \"is\": \"removed\"}.",
    "removed"
);

/// Runs a command about periodic jobs.
pub(crate) async fn run(arguments: PeriodicArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        PeriodicCommand::List(ListArguments { database }) => list(&database).await,
        PeriodicCommand::Add(arguments) => define::add(arguments).await,
        PeriodicCommand::Set(arguments) => define::set(arguments).await,
        PeriodicCommand::Run(RunArguments { name, database }) => run_now(&name, &database).await,
        PeriodicCommand::Pause(PauseArguments { name, database }) => change(Change::Pause, &name, &database).await,
        PeriodicCommand::Resume(ResumeArguments { name, database }) => change(Change::Resume, &name, &database).await,
        PeriodicCommand::Remove(RemoveArguments { name, database }) => change(Change::Remove, &name, &database).await,
    }
}

async fn list(database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let json = database.json;
    let database = Database::open_migrated(database).await?;
    let rows = database.client.periodic().list().await?;
    let now = database.client.database_time().await?;
    database.close().await?;
    output::print_list(json, &rows, |rows| table(rows, now))?;
    Ok(Verdict::Fine)
}

fn table(rows: &[PeriodicRow], now: OffsetDateTime) -> Table {
    let has_problems = rows.iter().any(|row| row.problem.is_some());
    let mut columns = vec![
        Column::long("name"),
        Column::text("schedule"),
        Column::text("zone").optional(),
        Column::text("next"),
        Column::text("last"),
        Column::long("kind").optional(),
        Column::long("queue").optional(),
        Column::text("from").optional(),
    ];
    if has_problems {
        columns.push(Column::why("problem"));
    }
    let mut table = Table::new(columns);
    for row in rows {
        let next = match (&row.problem, row.paused_at, row.next_at) {
            (Some(_), ..) => Cell::new("cannot run").style(Style::Bad),
            (None, Some(since), _) => Cell::new(format!("paused {}", format_relative(since, now))).style(Style::Warn),
            (None, None, Some(next)) => Cell::new(format_relative(next, now)),
            (None, None, None) => Cell::new("unknown").style(Style::Faint),
        };
        table.row([
            Cell::new(&row.name),
            Cell::new(&row.schedule),
            Cell::new(&row.time_zone),
            next,
            Cell::new(row.last_at.map(|last| format_relative(last, now)).unwrap_or_default()),
            Cell::new(&row.kind),
            Cell::new(&row.queue),
            Cell::new(if row.source == PeriodicSource::Code { "code" } else { "database" }),
            Cell::new(row.problem.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

async fn run_now(name: &str, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let json = database.json;
    let database = Database::open_migrated(database).await?;
    let run = in_own_name!(database.client.periodic().run_now(name)).await?;
    database.close().await?;
    let Some(PeriodicRun { job, duplicate, .. }) = run else { return Ok(unknown(name)) };
    if json {
        output::print_json(&serde_json::json!({ "name": name, "job": job, "duplicate": duplicate }))?;
    } else if duplicate {
        output::print_message(&format!("duplicate, nothing was inserted: the key is held by job {job}\n"))?;
    } else {
        output::print_message(&format!("inserted job {job}\n"))?;
    }
    Ok(Verdict::Fine)
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Pause,
    Resume,
    Remove,
}

async fn change(change: Change, name: &str, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let json = database.json;
    let database = Database::open_migrated(database).await?;
    let periodic = database.client.periodic();
    let (is_there, word) = match change {
        Change::Pause => (in_own_name!(periodic.pause(name)).await?, "paused"),
        Change::Resume => (in_own_name!(periodic.resume(name)).await?, "resumed"),
        Change::Remove => (in_own_name!(periodic.remove(name)).await?, "removed"),
    };
    database.close().await?;
    if !is_there {
        return Ok(unknown(name));
    }
    if json {
        output::print_json(&serde_json::json!({ "name": name, "is": word }))?;
    } else {
        output::print_message(&format!("periodic job {} is {word}\n", printable(name)))?;
    }
    Ok(Verdict::Fine)
}
