//! `uniqueue queue list`.

use clap::Args;
use time::OffsetDateTime;
use uniqueue::{Client, JobCount, QueueSettings};
use uniqueue_admin::{Admin, QueueInfo};

use crate::exit::{Failure, Verdict};
use crate::output::{self, Answer, Cell, Column, Form, List, Style, Table, count, format_duration, format_relative};

/// List the queues and their jobs.
///
/// It lists every queue that has settings, a live runner or jobs. It is as fast for a queue with ten million jobs: a count
/// stops at --count-up-to, and states without an index by queue are counted among the newest 20,000 jobs. Beyond, a number is
/// estimated from a part of the table, as ~537 k, or is a lower bound, as > 10 k.
///
/// ***
///
/// is: the status, as in the view queue_status. It is paused; held, with the end of the hold; no runner (it has jobs, and no
/// live runner works them); at its limit; working; waiting (jobs are available and none runs); or idle. groups: how many jobs
/// of each group may run at once, and fair where the groups take turns. rate: how many jobs may start in a time, and how many
/// of each group. by, and why: the user that paused the queue, and the reason. max waiting: the limit of available jobs. These
/// are shown where a queue has one. oldest: how long the oldest available job has been due.
/// With --json it prints one queue a line. Counts are {"exactly": n}, {"about": n} or {"at_least": n}, ages {"secs", "nanos"}.
///
/// Examples:
///   uniqueue queue list
///   uniqueue queue list emails --json | jq .available
///
/// Exit codes:
///   1    a given queue has no settings, no runner and no jobs
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ListArguments {
    /// List only these queues
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Stop each count at this number
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count_up_to: u32,
}

pub(super) async fn list(client: Client, form: Form, arguments: ListArguments) -> Result<Answer, Failure> {
    let ListArguments { names, count_up_to } = arguments;
    let mut queues = Admin::new(&client).queues().count_up_to(count_up_to).await?;
    let now = client.database_time().await?;
    let is_known = |name: &&String| queues.iter().any(|info| info.settings.name.as_str() == *name);
    let unknown = names.iter().filter(|name| !is_known(name));
    let unknown: Vec<_> = unknown.map(|name| format!("no such queue: {name:?}")).collect();
    queues.retain(|info| names.is_empty() || names.iter().any(|name| info.settings.name.as_str() == name));
    let verdict = if unknown.is_empty() { Verdict::Fine } else { Verdict::NotFine };
    Ok(form.list(&queues, |queues| table(queues, now))?.notes(unknown).verdict(verdict))
}

/// Lays queues out as a table.
pub(crate) fn table(queues: &[QueueInfo], now: OffsetDateTime) -> Table {
    let has_groups = queues.iter().any(|of| of.settings.group_limit.is_some() || of.settings.fair);
    let has_max_waiting = queues.iter().any(|of| of.settings.max_waiting.is_some());
    let has_rate = queues.iter().any(|of| of.settings.rate.is_some() || of.settings.group_rate.is_some());
    let has_why = queues.iter().any(|of| !why_paused(&of.settings).is_empty());
    List::of(queues)
        .column(Column::long("queue"), |of| &of.settings.name)
        .column(Column::text("is"), |of| status(of, now))
        .column_if(has_why, Column::why("by, and why"), |of| why_paused(&of.settings))
        .column_if(has_groups, Column::text("groups").optional(), |of| groups(&of.settings))
        .column_if(has_rate, Column::text("rate").optional(), |of| rates(&of.settings))
        .column(Column::number("runners").optional(), |of| count(of.runners))
        .column(Column::number("available"), |of| number(of.available, Style::Plain))
        .column_if(has_max_waiting, Column::number("max waiting").optional(), max_waiting)
        .column(Column::number("oldest"), |of| of.oldest_available_age.map(format_duration).unwrap_or_default())
        .column(Column::number("running"), |of| number(of.running, Style::Plain))
        .column(Column::number("limit").optional(), |of| {
            of.settings.limit.map_or_else(String::new, |limit| count(limit.into()))
        })
        .column(Column::number("scheduled").optional(), |of| number(of.scheduled, Style::Plain))
        .column(Column::number("retryable"), |of| number(of.retryable, Style::Warn))
        .column(Column::number("discarded").optional(), |of| number(of.discarded, Style::Bad))
        .column(Column::number("pending").optional(), |of| number(of.pending, Style::Plain))
        .column(Column::number("completed").optional(), |of| number(of.completed, Style::Faint))
        .column(Column::number("cancelled").optional(), |of| number(of.cancelled, Style::Faint))
        .table()
}

/// The person who paused a queue, and the reason. Empty if neither is stored.
fn why_paused(settings: &QueueSettings) -> String {
    let parts = [settings.paused_by.as_deref(), settings.pause_reason.as_deref()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// The limit of each group of a queue, and whether its groups take turns.
fn groups(settings: &QueueSettings) -> String {
    let limit = settings.group_limit.map(|limit| count(u64::from(limit)));
    let fair = settings.fair.then(|| "fair".to_owned());
    limit.into_iter().chain(fair).collect::<Vec<_>>().join(", ")
}

/// How many jobs of a queue may wait.
fn max_waiting(info: &QueueInfo) -> Cell {
    let Some(limit) = info.settings.max_waiting.map(u64::from) else { return Cell::new("") };
    let style = if info.available.counted() >= limit { Style::Bad } else { Style::Plain };
    Cell::new(count(limit)).style(style)
}

/// The rate of a queue, and that of each of its groups.
fn rates(settings: &QueueSettings) -> String {
    let rate = settings.rate.map(|rate| rate.to_string());
    let of_groups = settings.group_rate.map(|rate| format!("{rate} per group"));
    rate.into_iter().chain(of_groups).collect::<Vec<_>>().join("; ")
}

/// The status of a queue.
fn status(info: &QueueInfo, now: OffsetDateTime) -> Cell {
    let status = Status::of(info);
    let word = status.as_str();
    match (status, info.settings.paused_at.or(info.settings.held_until)) {
        (Status::Paused, Some(since)) => {
            Cell::new(format!("{word} {}", format_relative(since, now))).style(Style::Warn)
        }
        (Status::Held, Some(until)) => {
            Cell::new(format!("{word}, ends {}", format_relative(until, now))).style(Style::Warn)
        }
        (Status::Paused | Status::Held, None) | (Status::AtItsLimit | Status::Waiting, _) => Cell::new(word),
        (Status::NoRunner, _) => Cell::new(word).style(Style::Bad),
        (Status::Working, _) => Cell::new(word).style(Style::Good),
        (Status::Idle, _) => Cell::new(word).style(Style::Faint),
    }
}

fn number(jobs: JobCount, style: Style) -> Cell {
    let style = if jobs.counted() == 0 { Style::Faint } else { style };
    Cell::new(output::jobs(jobs)).style(style)
}

/// The status of a queue, by the rule of the view `queue_status`. A test compares the two.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Status {
    Paused,
    /// A worker or an operator holds it for a time.
    Held,
    /// It has unfinished jobs, and no live runner works them.
    NoRunner,
    AtItsLimit,
    Working,
    Waiting,
    Idle,
}

impl Status {
    pub(crate) fn of(queue: &QueueInfo) -> Self {
        let is_there = |jobs: JobCount| jobs.counted() > 0;
        let has_work = [queue.available, queue.running, queue.scheduled, queue.retryable].into_iter().any(is_there);
        let limit = queue.settings.limit.map(u64::from);
        if queue.settings.paused_at.is_some() {
            Self::Paused
        } else if queue.settings.held_until.is_some() {
            Self::Held
        } else if queue.runners == 0 && has_work {
            Self::NoRunner
        } else if limit.is_some_and(|limit| queue.running.counted() >= limit) {
            Self::AtItsLimit
        } else if is_there(queue.running) {
            Self::Working
        } else if is_there(queue.available) {
            Self::Waiting
        } else {
            Self::Idle
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Held => "held",
            Self::NoRunner => "no runner",
            Self::AtItsLimit => "at its limit",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
        }
    }
}
