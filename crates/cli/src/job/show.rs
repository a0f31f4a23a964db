//! `uniqueue job show`.

use clap::Args;
use time::OffsetDateTime;
use uniqueue::{AttemptError, Client, JobId, JobRow, JobState};

use super::json::pretty;
use super::when::{style, when};
use crate::Verdict;
use crate::args::QueueArguments;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Cell, Column, Record, Style, Table, ago, paint, plain, time, wrapped};

/// Before each line of what was handed in: args, an error.
const INDENT: &str = "  ";

/// Show everything about a job.
///
/// What it is and where it stands, args and meta, its progress and output, what it claims or who holds its key by now, and
/// what happened to it, with every error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ShowArguments {
    /// The job, or several
    #[arg(value_name = "ID", required = true)]
    ids: Vec<JobId>,

    #[command(flatten)]
    queue: QueueArguments,
}

const EXAMPLES: &str = "\
With --json one job is one object, several are one object a line.

Examples:
  uniqueue job show 019abc12-3456-7def-8a12-3456789abcde
  uniqueue job show --json 019abc12-3456-7def-8a12-3456789abcde | jq .errors

Exit codes:
  0    shown
  1    a job is not there
  2    a wrong command line, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Prints jobs.
pub(super) async fn run(arguments: ShowArguments) -> Result<Verdict, Failure> {
    let ShowArguments { ids, queue } = arguments;
    let database = Database::open_migrated(&queue).await?;
    let client = &database.client;
    let now = client.database_time().await?;
    let mut verdict = Verdict::Fine;
    for (at, id) in ids.iter().enumerate() {
        match client.job(id).await? {
            None => {
                output::tell(&format!("no such job: {id}"));
                verdict = Verdict::NotFine;
            }
            Some(job) if !queue.json => {
                let line = if at > 0 { "\n" } else { "" };
                output::print(&format!("{line}{}", text(client, &job, now).await?))?;
            }
            Some(job) if ids.len() == 1 => output::print_json(&job)?,
            Some(job) => output::print_json_line(&job)?,
        }
    }
    database.close().await?;
    Ok(verdict)
}

async fn text(client: &Client, job: &JobRow, now: OffsetDateTime) -> Result<String, Failure> {
    let at = |at: OffsetDateTime| format!("{} ({})", time(at), ago(at, now));
    let mut record = Record::new();
    record.cell("id", job.id.to_string());
    record.cell("kind", &job.kind);
    record.cell("queue", &job.queue);
    record.cell("state", Cell::new(format!("{}, {}", job.state, when(job, now))).style(style(job.state)));
    record.cell("priority", job.priority.to_string());
    record.cell("attempt", format!("{} of {}", job.attempt, job.max_attempts));
    record.cell("created", at(job.created_at));
    record.cell("scheduled", at(job.scheduled_at));
    record.some("attempted", job.attempted_at.map(at));
    record.some("finalized", job.finalized_at.map(at));
    record.some("runner", job.worker.map(|worker| worker.to_string()));
    record.some("replaced by", job.replaced_by.map(|id| id.to_string()));
    if let Some(key) = &job.unique_key {
        record.cell("unique key", key);
        record.cell("claim", claim(client, job, key, now).await?);
    }
    record.some("progress", job.progress.as_ref().map(ToString::to_string));
    let mut text = format!("{}\n", record.draw());
    let mut part = |title: &str, json: &str| {
        let lines = pretty(json);
        let lines = lines.lines().map(|line| format!("{INDENT}{}\n", plain(line)));
        text.push_str(&format!("\n{}\n{}", paint(Style::Strong, title), lines.collect::<String>()));
    };
    part("args", job.args.get());
    if !job.meta.is_empty() {
        part("meta", &serde_json::Value::Object(job.meta.clone()).to_string());
    }
    if let Some(output) = &job.output {
        part("output", &output.to_string());
    }
    let happened = timeline(job, now).text();
    text.push_str(&format!("\n{}\n{happened}", paint(Style::Strong, "what happened")));
    text.push_str(&errors(job, &happened, output::width()));
    Ok(text)
}

/// The errors that the timeline could not show whole: those of several lines, and those that are too long for the terminal.
fn errors(job: &JobRow, timeline: &str, width: Option<usize>) -> String {
    let mut text = String::new();
    for error in &job.errors {
        let is_one_line = error.error.lines().nth(1).is_none();
        if is_one_line && timeline.contains(plain(&failed(error)).trim_end()) {
            continue;
        }
        let title = format!("error of attempt {}, {}", error.attempt, time(error.at));
        text.push_str(&format!("\n{}\n", paint(Style::Bad, &title)));
        for line in error.error.lines() {
            for part in wrapped(&plain(line), width.map(|width| width.saturating_sub(INDENT.len()))) {
                text.push_str(&format!("{INDENT}{part}\n"));
            }
        }
    }
    text
}

/// What the timeline says of a failed attempt: its error, or the first line of it.
fn failed(error: &AttemptError) -> String {
    let mut lines = error.error.lines();
    let first = lines.next().unwrap_or_default();
    let more = if lines.next().is_some() { " …" } else { "" };
    format!("attempt {} failed: {first}{more}", error.attempt)
}

/// What the job claims; or who holds its key, where it does not.
async fn claim(client: &Client, job: &JobRow, key: &str, now: OffsetDateTime) -> Result<Cell, Failure> {
    let holder = client.holder(key).await?;
    if holder.as_ref().is_some_and(|holder| holder.id == job.id) {
        let states = job.unique_states.map(|states| states.to_string()).unwrap_or_default();
        let start = if job.until_start { "a worker fetches it or " } else { "" };
        let until = job.unique_until.map(|at| format!("; at the latest {}", ago(at, now))).unwrap_or_default();
        return Ok(Cell::new(format!("claims it, until {start}it leaves {states}{until}")).style(Style::Good));
    }
    let why = match job.unique_until.filter(|until| *until <= now) {
        Some(until) => format!("expired {}", ago(until, now)),
        None if job.unique_states.is_some_and(|states| states.is_empty()) => "given up for good".to_owned(),
        None => "none".to_owned(),
    };
    Ok(Cell::new(match holder {
        Some(holder) => format!("{why}; job {} ({}) holds the key", holder.id, holder.state),
        None => format!("{why}; the key is free"),
    }))
}

/// What is known of the job's life, in its order.
fn timeline(job: &JobRow, now: OffsetDateTime) -> Table {
    let mut moments = vec![(job.created_at, "inserted".to_owned(), Style::Plain)];
    for error in &job.errors {
        moments.push((error.at, failed(error), Style::Bad));
    }
    // Of the attempts before the latest only the errors are kept.
    let ended = job.errors.last().is_some_and(|error| error.attempt == job.attempt);
    if let Some(at) = job.attempted_at {
        moments.push((at, format!("attempt {} started", job.attempt), Style::Plain));
    }
    match (job.state, job.finalized_at) {
        (JobState::Discarded, Some(at)) => moments.push((at, "discarded".to_owned(), Style::Bad)),
        (state, Some(at)) => moments.push((at, state.to_string(), Style::Plain)),
        (JobState::Running, None) if !ended => moments.push((now, "running".to_owned(), Style::Good)),
        (JobState::Scheduled | JobState::Retryable, None) => {
            moments.push((job.scheduled_at, "to be run".to_owned(), Style::Faint));
        }
        _ => {}
    }
    // Stable: an error stands before the discarding that it caused at the same instant.
    moments.sort_by_key(|(at, ..)| *at);
    let mut table = Table::new([Column::text("at"), Column::number("ago"), Column::long("what")]);
    for (at, what, style) in moments {
        table.row([Cell::new(time(at)), Cell::new(ago(at, now)), Cell::new(what).style(style)]);
    }
    table
}
