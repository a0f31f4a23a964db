//! `uniqueue periodic`: what is inserted at each slot of a schedule.

use clap::{Args, Subcommand};
use time::OffsetDateTime;
use uniqueue::{PeriodicRow, PeriodicSource};

use crate::Verdict;
use crate::args::QueueArguments;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table, ago, plain};

/// Look at periodic jobs, run one now, pause and resume them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PeriodicArguments {
    #[command(subcommand)]
    command: PeriodicCommand,
}

#[derive(Debug, Subcommand)]
enum PeriodicCommand {
    List(ListArguments),
    Run(RunArguments),
    Pause(PauseArguments),
    Resume(ResumeArguments),
    Remove(RemoveArguments),
}

const EXAMPLES: &str = "\
Examples:
  uniqueue periodic list
  uniqueue periodic run daily-digest
  uniqueue periodic pause daily-digest

Exit codes:
  0    done
  1    there is no periodic job of that name
  2    a wrong command line, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// List the periodic jobs, with when each is due.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json one periodic job a line. A problem is why its slots cannot be run.

Examples:
  uniqueue periodic list
  uniqueue periodic list --json | jq -r 'select(.problem) | .name'

Exit codes:
  0    listed
  2    a wrong command line, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end")]
struct ListArguments {
    #[command(flatten)]
    queue: QueueArguments,
}

macro_rules! named {
    ($name:ident, $word:literal, $about:literal, $more:literal, $done:literal) => {
        #[derive(Debug, Args)]
        #[command(about = $about, long_about = concat!($about, "\n\n", $more), after_help = concat!(
            "Examples:\n  uniqueue periodic ", $word, " daily-digest\n\nExit codes:\n  0    ", $done,
            "\n  1    there is no periodic job of that name\n  2    a wrong command line, or the database failed\n  \
             130  interrupted by Ctrl-C or SIGTERM before the end"
        ))]
        struct $name {
            /// What it is called
            #[arg(value_name = "NAME")]
            name: String,

            #[command(flatten)]
            queue: QueueArguments,
        }
    };
}

named!(
    RunArguments,
    "run",
    "Insert one of its jobs at once, outside of the schedule",
    "Paused or not. Where its jobs have a unique key of their own, and another job holds it, that one is the answer. With \
     --json: {\"name\", \"job\"}.",
    "inserted, or the job that holds its key is named"
);
named!(
    PauseArguments,
    "pause",
    "Run no slot until it is resumed",
    "Jobs that are inserted already are worked. With --json: {\"name\", \"is\": \"paused\"}.",
    "paused"
);
named!(
    ResumeArguments,
    "resume",
    "Run its slots again, from now on",
    "What passed while it was paused is not caught up with. With --json: {\"name\", \"is\": \"resumed\"}.",
    "resumed"
);
named!(
    RemoveArguments,
    "remove",
    "Remove it; its jobs stay",
    "A definition in code comes back with the next start of a runner that has it: pause it instead. With --json: \
     {\"name\", \"is\": \"removed\"}.",
    "removed"
);

/// Runs one of them.
pub(crate) async fn run(arguments: PeriodicArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        PeriodicCommand::List(ListArguments { queue }) => list(&queue).await,
        PeriodicCommand::Run(RunArguments { name, queue }) => run_now(&name, &queue).await,
        PeriodicCommand::Pause(PauseArguments { name, queue }) => change(Change::Pause, &name, &queue).await,
        PeriodicCommand::Resume(ResumeArguments { name, queue }) => change(Change::Resume, &name, &queue).await,
        PeriodicCommand::Remove(RemoveArguments { name, queue }) => change(Change::Remove, &name, &queue).await,
    }
}

async fn list(queue: &QueueArguments) -> Result<Verdict, Failure> {
    let database = Database::open_migrated(queue).await?;
    let rows = database.client.periodic().list().await?;
    let now = database.client.database_time().await?;
    database.close().await?;
    if queue.json {
        output::print(&output::json_lines(&rows)?)?;
    } else {
        output::print(&table(&rows, now).text())?;
    }
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
        columns.push(Column::long("problem"));
    }
    let mut table = Table::new(columns);
    for row in rows {
        let next = match (&row.problem, row.paused_at, row.next_at) {
            (Some(_), ..) => Cell::new("cannot run").style(Style::Bad),
            (None, Some(since), _) => Cell::new(format!("paused {}", ago(since, now))).style(Style::Warn),
            (None, None, Some(next)) => Cell::new(ago(next, now)),
            (None, None, None) => Cell::new("not yet known").style(Style::Faint),
        };
        table.row([
            Cell::new(&row.name),
            Cell::new(&row.schedule),
            Cell::new(&row.time_zone),
            next,
            Cell::new(row.last_at.map(|last| ago(last, now)).unwrap_or_default()),
            Cell::new(&row.kind),
            Cell::new(&row.queue),
            Cell::new(if row.source == PeriodicSource::Code { "code" } else { "database" }),
            Cell::new(row.problem.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

async fn run_now(name: &str, queue: &QueueArguments) -> Result<Verdict, Failure> {
    let database = Database::open_migrated(queue).await?;
    let job = database.client.periodic().run_now(name).await?;
    database.close().await?;
    let Some(job) = job else { return Ok(unknown(name)) };
    if queue.json {
        output::print_json(&serde_json::json!({ "name": name, "job": job }))?;
    } else {
        output::print(&format!("job {job} is there: `uniqueue job show {job}`\n"))?;
    }
    Ok(Verdict::Fine)
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Pause,
    Resume,
    Remove,
}

async fn change(change: Change, name: &str, queue: &QueueArguments) -> Result<Verdict, Failure> {
    let database = Database::open_migrated(queue).await?;
    let periodic = database.client.periodic();
    let (is_there, word) = match change {
        Change::Pause => (periodic.pause(name).await?, "paused"),
        Change::Resume => (periodic.resume(name).await?, "resumed"),
        Change::Remove => (periodic.remove(name).await?, "removed"),
    };
    database.close().await?;
    if !is_there {
        return Ok(unknown(name));
    }
    if queue.json {
        output::print_json(&serde_json::json!({ "name": name, "is": word }))?;
    } else {
        output::print(&format!("periodic job {} is {word}\n", plain(name)))?;
    }
    Ok(Verdict::Fine)
}

fn unknown(name: &str) -> Verdict {
    output::tell(&format!("no such periodic job: {name:?}; `uniqueue periodic list` has them all"));
    Verdict::NotFine
}
