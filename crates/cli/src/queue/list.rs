//! `uniqueue queue list` and `uniqueue queue groups`.

use uniqueue::QueueSettings;
use uniqueue_admin::{GroupInfo, QueueInfo};

use crate::prelude::*;

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
        .column_if(has_groups, Column::text("groups").optional(), |of| groups_of(&of.settings))
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
fn groups_of(settings: &QueueSettings) -> String {
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
    let (word, of) = (info.status.as_str(), &info.settings);
    match (word, of.paused_at.or(of.held_until)) {
        ("paused", Some(since)) => Cell::new(format!("{word} {}", format_relative(since, now))).style(Style::Warn),
        ("held", Some(until)) => Cell::new(format!("{word}, ends {}", format_relative(until, now))).style(Style::Warn),
        ("no runner", _) => Cell::new(word).style(Style::Bad),
        ("working", _) => Cell::new(word).style(Style::Good),
        ("idle", _) => Cell::new(word).style(Style::Faint),
        _ => Cell::new(word),
    }
}

fn number(jobs: JobCount, style: Style) -> Cell {
    let style = if jobs.counted() == 0 { Style::Faint } else { style };
    Cell::new(output::jobs(jobs)).style(style)
}

/// List the groups of queues, and what holds each up.
///
/// It lists groups that have available or running jobs. Groups whose first job waits for something come first, the longest
/// first, of the first 1,000 by queue, priority and key. Counts stop at 1,001.
///
/// ***
///
/// first: the group's first available job, and since when it could have run. held by: its limit or rate, a hold, a job that runs
/// or began, or its queue. until: when a hold ends, or the rate lets the next job start. With --json it prints one group a line.
///
/// Examples:
///   uniqueue queue groups
///   uniqueue queue groups emails --json | jq .held_by.reason
///   uniqueue queue groups --by-name --limit 100000
///   uniqueue job list --queue emails --group customer:1
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct GroupsArguments {
    /// List only the groups of this queue
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// List them by the names of their queues and by their keys, whether they wait or not
    #[arg(long)]
    by_name: bool,

    /// The most groups
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

pub(super) async fn groups(client: Client, form: Form, arguments: GroupsArguments) -> Result<Answer, Failure> {
    let GroupsArguments { name, by_name, limit } = arguments;
    let groups = Admin::new(&client)
        .groups()
        .limit(limit)
        .given_flag(by_name, |groups| groups.by_name())
        .given(name, |groups, name| groups.queue(name))
        .await?;
    let now = client.database_time().await?;
    form.list(&groups, |groups| group_table(groups, now))
}

fn group_table(groups: &[GroupInfo], now: OffsetDateTime) -> Table {
    let relative = |at: Option<OffsetDateTime>| at.map_or_else(String::new, |at| format_relative(at, now));
    List::of(groups)
        .column(Column::long("group"), |of| &of.group)
        .column(Column::text("queue"), |of| &of.queue)
        .column(Column::number("running"), |of| count(of.running))
        .column(Column::number("limit").optional(), |of| of.limit.map_or_else(String::new, |limit| count(limit.into())))
        .column(Column::number("waiting"), |of| count(of.waiting))
        .column(Column::text("first").optional(), |of| of.head.map_or_else(String::new, |id| id.to_string()))
        .column(Column::text("since").optional(), |of| relative(of.head_since))
        .column(Column::why("held by"), |of| {
            Cell::new(of.held_by.as_ref().map_or("", |held| &held.reason)).style(Style::Warn)
        })
        .column(Column::text("until").optional(), |of| relative(of.held_until))
        .table()
}
