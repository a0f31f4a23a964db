//! `uniqueue queue groups`.

use clap::Args;
use time::OffsetDateTime;
use uniqueue::Client;
use uniqueue_admin::{Admin, Given, GroupInfo};

use crate::exit::Failure;
use crate::output::{Answer, Cell, Column, Form, List, Style, Table, count, format_relative};

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

pub(super) async fn list(client: Client, form: Form, arguments: GroupsArguments) -> Result<Answer, Failure> {
    let GroupsArguments { name, by_name, limit } = arguments;
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
