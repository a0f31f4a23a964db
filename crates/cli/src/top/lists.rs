//! The lists of the screen: the columns of each, and its rows from the answers of the library.

use std::cmp::Reverse;
use std::collections::VecDeque;

use ratatui::layout::Constraint;
use uniqueue_admin::{FailingKind, GroupInfo, KeyHolder, Obstacle, QueueInfo, RunningJobInfo, WaitingInsert};

use crate::output::List as Listing;
use crate::prelude::*;

/// The lists, in the order of their keys.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Pane {
    Queues,
    Running,
    Failing,
    Keys,
    Waiting,
    Groups,
}

/// The columns and rows of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

/// A row: its cells, and what the keys act on.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    pub(super) queue: Option<Queue>,
    /// A kind whose jobs can be retried.
    pub(super) kind: Option<String>,
    pub(super) job: Option<JobId>,
}

/// The queue of a row.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    /// Whether it is paused or held.
    pub(super) is_stopped: bool,
    /// The counted available jobs, for the sparkline. The count may have stopped early.
    pub(super) depth: u64,
}

/// A column of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) width: Constraint,
    /// The least width that the column is shown with.
    pub(super) least: u16,
    /// Where there is no room, the columns with the highest rank are left out. Those of rank 0 always stay.
    pub(super) rank: u8,
    /// Whether it is aligned to the right. The filter looks at all other columns.
    pub(super) is_number: bool,
}

/// A column of text of a fixed width.
const fn fixed(name: &'static str, width: u16, rank: u8) -> Column {
    Column { name, width: Constraint::Length(width), least: width, rank, is_number: false }
}

/// A column of numbers.
const fn number(name: &'static str, width: u16, rank: u8) -> Column {
    Column { is_number: true, ..fixed(name, width, rank) }
}

/// A column of text that takes a share of the rest of the width.
const fn fill(name: &'static str, share: u16, least: u16, rank: u8) -> Column {
    Column { name, width: Constraint::Fill(share), least, rank, is_number: false }
}

/// The column that only a list of queues with groups that are held up has.
pub(super) const HELD_UP: Column = fixed("held up", 7, 0);

impl Pane {
    pub(super) const ALL: [Pane; 6] =
        [Pane::Queues, Pane::Running, Pane::Failing, Pane::Keys, Pane::Waiting, Pane::Groups];

    /// The name of the list, and what it says where it has no row.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Pane::Queues => ("queues", "there is no queue yet: no job was inserted, and no runner is alive"),
            Pane::Running => ("running", "no job is running"),
            Pane::Failing => ("failing", "no kind is failing"),
            Pane::Keys => ("keys", "no key is held"),
            Pane::Waiting => ("waiting inserts", "no insert waits for another transaction"),
            Pane::Groups => ("groups", "no group is held up"),
        }
    }
}

/// A list with what the keys act on in each row.
fn list<T>(listing: Listing<'_, T, Column>, row: impl Fn(&T) -> Row) -> List {
    let (columns, rows) = listing.parts();
    List { columns, rows: rows.map(|(item, cells)| Row { cells, ..row(item) }).collect() }
}

/// The queues, those in trouble first. `groups` may have ended early.
pub(super) fn queues(queues: &[QueueInfo], groups: &[GroupInfo], has_all_groups: bool) -> List {
    let held = |queue: &QueueInfo| {
        let is_held = |group: &&GroupInfo| group.queue == queue.settings.name && group.held_by.is_some();
        groups.iter().filter(is_held).count()
    };
    let mut order: Vec<_> = queues.iter().collect();
    // The names keep their order among equals.
    order.sort_by_key(|queue| {
        trouble(&queue.status, queue.available.counted(), held(queue) > 0, queue.oldest_available_age)
    });
    let has_held = order.iter().any(|queue| held(queue) > 0);
    // With the groups that are held up, `discarded` still fits into 80 columns. Most queues have no groups, and the room is
    // scarce, so without any the column is left out.
    let listing = Listing::of(&order)
        .column(fill("queue", 2, if has_held { 11 } else { 16 }, 0), |queue| &queue.settings.name)
        .column(fixed("", 9, 0), |queue| is(&queue.status, queue.settings.limit))
        .column_if(has_held, HELD_UP, |queue| {
            let held = match held(queue) {
                0 => String::new(),
                held if has_all_groups => held.to_string(),
                held => format!("{held}+"),
            };
            Cell::new(held).style(Style::Warn)
        })
        .column(number("available", 9, 0), |queue| queue.available.to_string())
        .column(number("oldest", 9, 0), |queue| queue.oldest_available_age.map(format_duration).unwrap_or_default())
        .column(number("running", 8, 0), |queue| queue.running.to_string())
        .column(number("scheduled", 9, 3), |queue| queue.scheduled.to_string())
        .column(number("retryable", 9, 0), |queue| queue.retryable.to_string())
        .column(number("discarded", 9, 1), |queue| queue.discarded.to_string())
        .column(number("runners", 7, 2), |queue| queue.runners.to_string())
        .column(fill("depth", 1, 8, 4), |_| "");
    list(listing, |queue| {
        let is_stopped = matches!(queue.status.as_str(), "paused" | "held");
        let queue = Queue { name: queue.settings.name.to_string(), is_stopped, depth: queue.available.counted() };
        Row { queue: Some(queue), ..Row::default() }
    })
}

/// The status of a queue that is paused, held or without a runner, else its limit.
pub(super) fn is(status: &str, limit: Option<u32>) -> Cell {
    match (status, limit) {
        ("paused" | "held", _) => Cell::new(status).style(Style::Warn),
        ("no runner", _) => Cell::new(status).style(Style::Bad),
        (_, limit) => Cell::new(limit.map(|limit| format!("limit {limit}")).unwrap_or_default()),
    }
}

/// The rank of a queue's trouble: the least comes first. Among queues of one rank, that whose oldest job waits longest.
pub(super) fn trouble(
    status: &str,
    depth: u64,
    has_held_groups: bool,
    oldest: Option<Duration>,
) -> (u8, Reverse<Option<Duration>>) {
    let rank = match status {
        "no runner" => 0,
        "paused" | "held" if depth > 0 => 1,
        _ if has_held_groups => 2,
        "at its limit" => 3,
        "waiting" => 4,
        _ => 5,
    };
    (rank, Reverse(oldest))
}

pub(super) fn running(jobs: &[RunningJobInfo]) -> List {
    let listing = Listing::of(jobs)
        .column(fixed("job", 36, 2), |job| job.id.to_string())
        .column(fill("kind", 2, 14, 0), |job| &job.kind)
        .column(fill("queue", 1, 10, 0), |job| &job.queue)
        .column(number("for", 9, 0), |job| job.running_for.map(format_duration).unwrap_or_default())
        .column(number("attempt", 7, 0), |job| format!("{}/{}", job.attempt, job.max_attempts))
        .column(fill("runner", 1, 12, 0), |job| {
            let runner = job.runner.as_deref().unwrap_or("unknown");
            match job.runner_is_alive {
                true => Cell::new(runner),
                false => Cell::new(format!("dead: {runner}")).style(Style::Bad),
            }
        })
        .column(fill("progress", 1, 10, 1), |job| job.progress.as_ref().map(progress).unwrap_or_default());
    list(listing, |job| Row { job: Some(job.id), ..Row::default() })
}

/// Writes a progress. `{"done": 3, "total": 4}` is the usual form.
fn progress(reported: &serde_json::Value) -> String {
    let number = |name: &str| reported.get(name).and_then(serde_json::Value::as_f64);
    match (number("done"), number("total")) {
        (Some(done), Some(total)) if total > 0.0 => format!("{:.0}% of {total}", done / total * 100.0),
        _ => reported.as_str().map_or_else(|| reported.to_string(), str::to_owned),
    }
}

pub(super) fn failing(kinds: &[FailingKind], now: OffsetDateTime) -> List {
    let listing = Listing::of(kinds)
        .column(fill("kind", 2, 14, 0), |of| &of.kind)
        .column(fill("queues", 1, 10, 1), |of| of.queues.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        .column(number("retryable", 9, 0), |of| of.retryable.to_string())
        .column(number("discarded", 9, 0), |of| Cell::new(of.discarded.to_string()).style(Style::Bad))
        .column(number("last", 11, 0), |of| of.last_failed_at.map_or_else(String::new, |at| format_relative(at, now)))
        .column(fill("error", 4, 20, 0), |of| of.last_error.as_deref().unwrap_or_default());
    list(listing, |of| Row { kind: Some(of.kind.to_string()), job: of.last_job, ..Row::default() })
}

pub(super) fn keys(holders: &[KeyHolder]) -> List {
    let listing = Listing::of(holders)
        .column(fill("key", 2, 16, 0), |of| &of.claim.unique_key)
        .column(fill("kind", 1, 12, 0), |of| &of.kind)
        .column(fixed("holder is", 9, 0), |of| of.claim.holder_state.as_str())
        .column(number("age", 9, 0), |of| format_duration(of.claim.holder_age))
        .column(fixed("job", 36, 1), |of| of.claim.holder.to_string())
        .column(fill("free", 2, 20, 0), |of| of.claim.frees());
    list(listing, |of| Row { job: Some(of.claim.holder), ..Row::default() })
}

pub(super) fn waiting(inserts: &[WaitingInsert]) -> List {
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    let listing = Listing::of(inserts)
        .column(number("pid", 7, 0), |of| of.pid.to_string())
        .column(fixed("application", 12, 0), |of| known(&of.application))
        .column(number("waiting", 9, 0), |of| of.waiting_for.map(format_duration).unwrap_or_default())
        .column(fixed("for", 16, 0), |of| match &of.unique_key {
            Some(key) => format!("{} ({key})", of.waits_for),
            None => of.waits_for.clone(),
        })
        .column(fill("of session", 3, 20, 0), |of| {
            let pid = of.blocker_pid.map(|pid| format!("{pid} ")).unwrap_or_default();
            let blocker = format!("{pid}{}, {}", known(&of.blocker_application), known(&of.blocker_state));
            Cell::new(blocker).style(Style::Bad)
        })
        .column(number("open", 8, 0), |of| of.blocker_open_for.map(format_duration).unwrap_or_default())
        .column(fill("its last statement", 2, 20, 1), |of| known(&of.blocker_query));
    list(listing, |_| Row::default())
}

/// The groups that are held up.
pub(super) fn groups(groups: &[GroupInfo], now: OffsetDateTime) -> List {
    let age = |since| format_duration(Duration::try_from(now - since).unwrap_or_default());
    let held: Vec<_> = groups.iter().filter(|of| of.held_by.is_some()).collect();
    let listing = Listing::of(&held)
        .column(fill("group", 2, 14, 0), |of| &of.group)
        .column(fill("queue", 1, 10, 0), |of| &of.queue)
        .column(number("running", 7, 1), |of| {
            format!("{}{}", of.running, of.limit.map(|limit| format!("/{limit}")).unwrap_or_default())
        })
        .column(number("waiting", 7, 0), |of| of.waiting.to_string())
        .column(number("oldest", 9, 0), |of| of.head_since.map(age).unwrap_or_default())
        .column(fill("held up by", 2, 20, 0), |of| {
            Cell::new(of.held_by.as_ref().map(short).unwrap_or_default()).style(Style::Warn)
        })
        .column(fixed("until", 10, 2), |of| of.held_until.map_or_else(String::new, |at| format_relative(at, now)));
    list(listing, |of| Row { job: of.head, ..Row::default() })
}

/// An obstacle in a few words: its code, and the job that it names.
fn short(obstacle: &Obstacle) -> String {
    match obstacle.details.get("job").and_then(|job| job.as_str()) {
        Some(job) => format!("{}, job {job}", obstacle.code),
        None => obstacle.code.to_string(),
    }
}

/// Draws the last values as bars. The highest value has the highest bar.
pub(super) fn sparkline(history: &VecDeque<u64>, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let latest: Vec<u64> = history.iter().rev().take(width).rev().copied().collect();
    let highest = latest.iter().max().copied().unwrap_or(0);
    let bar = |value: u64| match highest {
        0 => BARS[0],
        highest => BARS[usize::try_from(value.saturating_mul(7).div_ceil(highest)).unwrap_or(7).min(7)],
    };
    latest.into_iter().map(bar).collect()
}
