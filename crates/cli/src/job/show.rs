//! `uniqueue job show`.

use uniqueue::json::indent_json;
use uniqueue::{AttemptError, JobParent};
use uniqueue_admin::{JobChild, Obstacle, ObstacleCode};

use super::list::{state_style, time_in_state};
use crate::arguments::IdArgument;
use crate::output::{paint, wrap};
use crate::prelude::*;

/// A job as `--json` prints it.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    job: JobRow,
    why: Vec<Obstacle>,
    parents: Vec<JobParent>,
    children: Vec<JobChild>,
}

/// The indentation of args, meta, output and errors.
const INDENT: &str = "  ";

/// Show everything about a job.
///
/// Its fields, args, meta, progress and output, why it waits, the jobs before and after it, its claim or the job that
/// holds its key now, its group, and its history with every error.
///
/// ***
///
/// With --json it prints one object for one job, and one object a line for several.
///
/// Examples:
///   uniqueue job show 019abc12-3456-7def-8a12-3456789abcde
///   uniqueue job show 019abc12-34
///   uniqueue job show --json 019abc12-3456-7def-8a12-3456789abcde | jq .errors
///   uniqueue job show --json 019abc12-34 | jq -r '.why[].reason'
///
/// Exit codes:
///   1    a job does not exist, or several jobs begin with the digits
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ShowArguments {
    /// One or more jobs: ids, or the first four or more digits of each
    #[arg(value_name = "ID", required = true)]
    ids: Vec<IdArgument>,
}

/// Everything about the jobs.
pub(super) async fn show(client: Client, form: Form, ShowArguments { ids }: ShowArguments) -> Result<Answer, Failure> {
    let now = client.database_time().await?;
    let (mut shown, mut texts, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for id in &ids {
        match id.find(&client).await? {
            Err(problem) => problems.push(problem),
            Ok(job) if form.json => {
                let (parents, children) = relatives(&client, job.id).await?;
                shown.push(Shown { why: Admin::new(&client).why(job.id).await?, job, parents, children });
            }
            Ok(job) => texts.push(text(&client, &job, now).await?),
        }
    }
    let answer = match shown.as_slice() {
        [only] if ids.len() == 1 => form.object(only, |_| String::new())?,
        all if form.json => form.lines(all)?,
        _ => Answer::of(texts.join("\n")),
    };
    let verdict = if problems.is_empty() { Verdict::Fine } else { Verdict::NotFine };
    Ok(answer.notes(problems).verdict(verdict))
}

async fn text(client: &Client, job: &JobRow, now: OffsetDateTime) -> Result<String, Failure> {
    let at = |at: OffsetDateTime| format!("{} ({})", format_time(at), format_relative(at, now));
    let mut record = Record::new();
    record.field("id", job.id.to_string());
    record.field("kind", &job.kind);
    record.field("queue", &job.queue);
    let state = format!("{}, {}", job.state, time_in_state(job, now));
    record.field("state", Cell::new(state).style(state_style(job.state)));
    record.field("priority", job.priority.to_string());
    record.field("attempt", format!("{} of {}", job.attempt, job.max_attempts));
    record.optional_field("crashes", (job.crashes > 0).then(|| format!("{} in a row", job.crashes)));
    record.field("created", at(job.created_at));
    record.field("scheduled", at(job.scheduled_at));
    record.optional_field("expires", job.expires_at.filter(|_| job.attempted_at.is_none()).map(at));
    record.optional_field("attempted", job.attempted_at.map(at));
    record.optional_field("finalized", job.finalized_at.map(at));
    record.optional_field("updated", job.updated_at.map(|last| format!("{}, last {}", times(job.updates), at(last))));
    record.optional_field("updated by", job.updated_by.map(|id| format!("the insert with id {id}")));
    record.optional_field("runner", job.worker.map(|worker| worker.to_string()));
    record.optional_field("replaced by", job.replaced_by.map(|id| id.to_string()));
    if let Some(key) = &job.unique_key {
        record.field("unique key", key);
        record.field("claim", claim(client, job, key, now).await?);
    }
    add_group(&mut record, client, job).await?;
    record.optional_field("progress", job.progress.as_ref().map(ToString::to_string));
    let (parents, children) = relatives(client, job.id).await?;
    let relatives = family(&parents, &children);
    let mut text = format!("{}\n{}{relatives}", record.draw(), why(&Admin::new(client).why(job.id).await?));
    let mut part = |title: &str, json: &str| {
        let lines = indent_json(json);
        let lines = lines.lines().map(|line| format!("{INDENT}{}\n", printable(line)));
        text.push_str(&format!("\n{}\n{}", paint(Style::Strong, title), lines.collect::<String>()));
    };
    part("args", job.args.get());
    if !job.meta.is_empty() {
        part("meta", &serde_json::Value::Object(job.meta.clone()).to_string());
    }
    if let Some(output) = &job.output {
        part("output", &output.to_string());
    }
    let history = history(job, now).text();
    text.push_str(&format!("\n{}\n{history}", paint(Style::Strong, "history")));
    text.push_str(&errors(job, &history, output::width()));
    Ok(text)
}

/// The errors that the history could not show in full: those with several lines, and those wider than the terminal.
fn errors(job: &JobRow, history: &str, width: Option<usize>) -> String {
    let mut text = String::new();
    for error in &job.errors {
        let is_one_line = error.error.lines().nth(1).is_none();
        if is_one_line && history.contains(printable(&failed(error)).trim_end()) {
            continue;
        }
        let title = format!("error of attempt {}, {}", error.attempt, format_time(error.at));
        text.push_str(&format!("\n{}\n", paint(Style::Bad, &title)));
        for line in error.error.lines() {
            for part in wrap(&printable(line), width.map(|width| width.saturating_sub(INDENT.len()))) {
                text.push_str(&format!("{INDENT}{part}\n"));
            }
        }
    }
    text
}

/// A failed attempt in the history, with the first line of its error.
fn failed(error: &AttemptError) -> String {
    let mut lines = error.error.lines();
    let first = lines.next().unwrap_or_default();
    let more = if lines.next().is_some() { " …" } else { "" };
    let code = error.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
    format!("attempt {} failed{code}: {first}{more}", error.attempt)
}

/// The job's claim, or the job that holds its key instead.
async fn claim(client: &Client, job: &JobRow, key: &str, now: OffsetDateTime) -> Result<Cell, Failure> {
    let holder = Admin::new(client).claims().from(key).limit(1).await?.pop().map(|holder| holder.claim);
    let holder = holder.filter(|holder| holder.unique_key == key);
    if let Some(holder) = holder.as_ref().filter(|holder| holder.holder == job.id) {
        return Ok(Cell::new(format!("claimed; free {}", holder.frees())).style(Style::Good));
    }
    let own = match job.unique_until.filter(|until| *until <= now) {
        Some(until) => format!("expired {}", format_relative(until, now)),
        None if job.unique_states.is_some_and(|states| states.is_empty()) => "given up for good".to_owned(),
        None => "none".to_owned(),
    };
    Ok(Cell::new(match holder {
        Some(holder) => format!("{own}; job {} ({}) holds the key", holder.holder, holder.holder_state),
        None => format!("{own}; the key is free"),
    }))
}

/// Adds a job's group, what the job says of it, and how the group stands now.
pub(crate) async fn add_group(record: &mut Record, client: &Client, job: &JobRow) -> Result<(), Failure> {
    let Some(key) = &job.group_key else { return Ok(()) };
    let own = match (job.in_order, job.group_limit) {
        (true, _) => ", in order".to_owned(),
        (false, Some(limit)) => format!(", at most {limit} at once"),
        (false, None) => String::new(),
    };
    record.field("group", format!("{key}{own}"));
    let Some(now) = Admin::new(client).groups().of(job.queue.as_str(), key).await?.pop() else { return Ok(()) };
    let limit = now.limit.map(|limit| format!(" of {}", count(u64::from(limit)))).unwrap_or_default();
    let first = if now.head == Some(job.id) { "; this job is the first" } else { "" };
    record.field(
        "in the group",
        format!("{}{limit} running, {} available{first}", count(now.running), count(now.waiting)),
    );
    Ok(())
}

/// A number of times in words.
fn times(number: u32) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

/// The known events of the job, in order of time.
fn history(job: &JobRow, now: OffsetDateTime) -> Table {
    let mut events = vec![(job.created_at, "inserted".to_owned(), Style::Plain)];
    for error in &job.errors {
        events.push((error.at, failed(error), Style::Bad));
    }
    if let Some(at) = job.updated_at {
        let all = if job.updates > 1 { format!(", the last of {} updates", job.updates) } else { String::new() };
        events.push((at, format!("updated by a duplicate{all}"), Style::Plain));
    }
    // The row keeps only the errors of earlier attempts.
    let ended = job.errors.last().is_some_and(|error| error.attempt == job.attempt);
    if let Some(at) = job.attempted_at {
        events.push((at, format!("attempt {} started", job.attempt), Style::Plain));
    }
    match (job.state, job.finalized_at) {
        (JobState::Discarded, Some(at)) => events.push((at, "discarded".to_owned(), Style::Bad)),
        (state, Some(at)) => events.push((at, state.to_string(), Style::Plain)),
        (JobState::Running, None) if !ended => events.push((now, "running".to_owned(), Style::Good)),
        (JobState::Scheduled | JobState::Retryable, None) => {
            events.push((job.scheduled_at, "due".to_owned(), Style::Faint));
        }
        _ => {}
    }
    // The sort is stable, so an error stays before the discarding that it caused at the same time.
    events.sort_by_key(|(at, ..)| *at);
    List::of(&events)
        .column(Column::text("at"), |(at, ..)| format_time(*at))
        .column(Column::number("ago"), |(at, ..)| format_relative(*at, now))
        .column(Column::long("event"), |(_, event, style)| Cell::new(event).style(*style))
        .table()
}

/// How many children are shown.
const CHILDREN: u32 = 100;

/// The parents and the children of a job.
async fn relatives(client: &Client, id: JobId) -> Result<(Vec<JobParent>, Vec<JobChild>), Failure> {
    Ok((client.parents(id).await?, Admin::new(client).children(id, CHILDREN).await?))
}

/// The part of `job show` for parents and children. Empty if the job has none.
fn family(parents: &[JobParent], children: &[JobChild]) -> String {
    let (has_parents, has_children) = (!parents.is_empty(), !children.is_empty());
    let outcome = |of: Option<JobState>, open: &'static str| of.map_or(open, JobState::as_str);
    let parents = List::of(parents)
        .column(Column::text("id"), |of| of.id.to_string())
        .column(Column::long("kind"), |of| of.kind.as_ref().map_or("(deleted)", AsRef::as_ref))
        .column(Column::text("state"), |of| of.state.or(of.outcome).map_or("", JobState::as_str))
        .column(Column::text("condition"), |of| of.condition.to_string())
        .column(Column::text("outcome"), |of| outcome(of.outcome, "waits for it"));
    let is_whole = children.len() < CHILDREN as usize;
    let children = List::of(children)
        .column(Column::text("id"), |of| of.id.to_string())
        .column(Column::long("kind"), |of| &of.kind)
        .column(Column::text("state"), |of| of.state.as_str())
        .column(Column::text("condition"), |of| of.condition.to_string())
        .column(Column::text("outcome"), |of| outcome(of.outcome, "waits"));
    let title = if is_whole { "before".to_owned() } else { format!("before (the first {CHILDREN})") };
    let part = |is_there: bool, title: &str, list: Table| match is_there {
        true => format!("\n{}\n{}", paint(Style::Strong, title), list.text_without_count()),
        false => String::new(),
    };
    part(has_parents, "runs after", parents.table()) + &part(has_children, &title, children.table())
}

/// A part of `job show`: each obstacle, and below it what to do. Empty for a job that runs or is final.
fn why(obstacles: &[Obstacle]) -> String {
    let waits = |obstacle: &&Obstacle| !matches!(obstacle.code, ObstacleCode::Final | ObstacleCode::Running);
    let mut text = String::new();
    for obstacle in obstacles.iter().filter(waits) {
        text.push_str(&format!("  {}\n", printable(&obstacle.reason)));
        if let Some(remedy) = &obstacle.remedy {
            text.push_str(&format!("    {}\n", paint(Style::Faint, &printable(remedy))));
        }
    }
    match text.is_empty() {
        true => text,
        false => format!("\n{}\n{text}", paint(Style::Strong, "why it waits")),
    }
}
