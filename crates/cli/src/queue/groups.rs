//! `uniqueue queue groups`.

use clap::Args;
use time::OffsetDateTime;
use uniqueue::Client;
use uniqueue_admin::{Admin, GroupInfo};

use crate::database::{DatabaseArguments, ask_each};
use crate::exit::{Failure, Verdict};
use crate::given::Given;
use crate::output::{Answer, Cell, Column, Form, Style, Table, count, format_relative};

/// List the groups of queues, and what holds each up.
///
/// It lists groups that have available or running jobs. Groups whose first job waits for something come first, the longest
/// first, of the first 1,000 by queue, priority and key. Counts stop at 1,001.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
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

    #[command(flatten)]
    database: DatabaseArguments,
}

const EXAMPLES: &str = "\
first: the group's first available job, and since when it could have run. held by: its limit or rate, a hold, a job that runs
or began, or its queue. until: when a hold ends, or the rate lets the next job start. With --json it prints one group a line.

Examples:
  uniqueue queue groups
  uniqueue queue groups emails --json | jq .held_by.reason
  uniqueue queue groups --by-name --limit 100000
  uniqueue job list --queue emails --group customer:1";

/// Prints the groups.
pub(super) async fn run(arguments: GroupsArguments) -> Result<Verdict, Failure> {
    ask_each(&arguments.database, |client, form| list(client, form, arguments.clone())).await
}

async fn list(client: Client, form: Form, arguments: GroupsArguments) -> Result<Answer, Failure> {
    let GroupsArguments { name, by_name, limit, database: _ } = arguments;
    let groups = Admin::new(&client)
        .groups()
        .limit(limit)
        .given_flag(by_name, |groups| groups.by_name())
        .given(name, |groups, name| groups.queue(name))
        .await?;
    let now = client.database_time().await?;
    form.list(&groups, |groups| table(groups, now))
}

fn table(groups: &[GroupInfo], now: OffsetDateTime) -> Table {
    let mut table = Table::new([
        Column::long("group"),
        Column::text("queue"),
        Column::number("running"),
        Column::number("limit").optional(),
        Column::number("waiting"),
        Column::text("first").optional(),
        Column::text("since").optional(),
        Column::why("held by"),
        Column::text("until").optional(),
    ]);
    for group in groups {
        table.row([
            Cell::new(&group.group),
            Cell::new(&group.queue),
            Cell::new(count(group.running)),
            Cell::new(group.limit.map(|limit| count(u64::from(limit))).unwrap_or_default()),
            Cell::new(count(group.waiting)),
            Cell::new(group.head.map(|id| id.to_string()).unwrap_or_default()),
            Cell::new(group.head_since.map(|since| format_relative(since, now)).unwrap_or_default()),
            Cell::new(group.held_by.as_ref().map(|held| held.reason.as_str()).unwrap_or_default()).style(Style::Warn),
            Cell::new(group.held_until.map(|until| format_relative(until, now)).unwrap_or_default()),
        ]);
    }
    table
}
