//! The incident that the tests draw.

use std::time::Instant;

use super::lists::{self, List, Pane, Queue, Row};
use super::state::{Snapshot, State, Update};
use crate::prelude::*;

pub(super) const JOB: &str = "019abc12-3456-7def-8a12-3456789abcde";

/// A queue with counts of available and running jobs, and the age of its oldest one.
pub(super) fn queue(name: &str, is: Cell, depth: u64, oldest: &str, running: &str) -> Row {
    let cells = [&depth.to_string(), oldest, running, "12", "3", "0", "2", ""];
    let is_stopped = is.text == "paused";
    let cells = [Cell::new(name), is].into_iter().chain(cells.map(Cell::new)).collect();
    Row { cells, queue: Some(Queue { name: name.to_owned(), is_stopped, depth }), ..Row::default() }
}

/// Rows under the columns of a list.
pub(super) fn list(pane: Pane, rows: impl Into<Vec<Row>>) -> List {
    let now = OffsetDateTime::UNIX_EPOCH;
    let empty = match pane {
        Pane::Queues => lists::queues(&[], &[], true),
        Pane::Running => lists::running(&[]),
        Pane::Failing => lists::failing(&[], now),
        Pane::Keys => lists::keys(&[]),
        Pane::Waiting => lists::waiting(&[]),
        Pane::Groups => lists::groups(&[], now),
    };
    List { rows: rows.into(), ..empty }
}

/// Rows of jobs, whose cell `at` has a style.
fn job<const N: usize>(cells: [&str; N], at: usize, style: Style) -> Row {
    let mut row = Row { job: JOB.parse().ok(), cells: cells.map(Cell::new).into(), ..Row::default() };
    row.cells[at].style = style;
    row
}

/// The incident of the guide for operators, on the screen.
pub(super) fn incident(depth: u64) -> Snapshot {
    let oldest = if depth > 0 { "12m 20s" } else { "" };
    let queues = [
        queue("billing", lists::is("waiting", Some(2)), depth, oldest, "0"),
        queue("emails", lists::is("waiting", None), 3, "1s", "18"),
        queue("imports", lists::is("paused", None), 250, "1h 6m", "0"),
    ];
    let email = JOB.replace('e', "f");
    let running = [
        job([JOB, "report.build", "emails", "4m 2s", "1/25", "worker-1", "40% of 200"], 0, Style::Plain),
        job([&email, "email.send", "emails", "31s", "2/5", "dead: worker-3", ""], 5, Style::Bad),
    ];
    let error = "smtp: connection refused\u{1b}[31m";
    let failing = job(["email.send", "emails", "3", "1", "8s ago", error], 3, Style::Bad);
    let frees = "when it is completed, cancelled or discarded";
    let key = ["invoice:2026-11", "invoice.send", "available", "12m 20s", JOB, frees];
    let (blocker, query) = ("4242 deploy, idle in transaction", "SELECT * FROM uniqueue.insert_job('report.close')");
    let waiting = ["4711", "shop", "9m 58s", "a key", blocker, "12m 22s", query];
    let group = ["customer:1", "emails", "3/3", "17", "2m 5s", "group_limit", "in 4m 3s"];
    Snapshot {
        clock: "09:14:07 UTC".to_owned(),
        took: Duration::from_millis(12),
        runners: 2,
        inserted: 41.5,
        completed: 38.0,
        failed: 0.4,
        lists: [
            list(Pane::Queues, queues),
            list(Pane::Running, running),
            list(Pane::Failing, [Row { kind: Some("email.send".to_owned()), ..failing }]),
            list(Pane::Keys, [job(key, 0, Style::Plain)]),
            list(Pane::Waiting, [Row { job: None, ..job(waiting, 4, Style::Bad) }]),
            list(Pane::Groups, [job(group, 5, Style::Warn)]),
        ],
    }
}

/// A state after a few snapshots.
pub(super) fn state_with_history(now: Instant) -> State {
    let mut state = State::new("schema uniqueue".to_owned(), Duration::from_secs(1));
    for depth in [0, 4, 9, 15, 22, 30, 41] {
        let inserted = 30.0 + (depth % 7) as f64 * 3.0;
        state.apply(
            Update::Snapshot(Box::new(Snapshot { inserted, completed: 60.0 - depth as f64, ..incident(depth) })),
            now,
        );
    }
    state
}
