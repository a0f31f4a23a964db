//! The lists of the screen: the columns of each, and its rows from the answers of the library.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use ratatui::layout::Constraint;
use time::OffsetDateTime;
use uniqueue::JobId;
use uniqueue_admin::{FailingKind, GroupInfo, KeyHolder, Obstacle, QueueInfo, RunningJobInfo, WaitingInsert};

use crate::output::{Cell, Style, format_duration, format_relative};
use crate::queue::Status;

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

    /// The columns of the list. `queues` leaves out `held up` where no group is.
    pub(super) fn columns(self) -> Vec<Column> {
        match self {
            // With the groups that are held up, `discarded` still fits into 80 columns.
            Pane::Queues => vec![
                fill("queue", 2, 11, 0),
                fixed("", 9, 0),
                fixed(HELD_UP, 7, 0),
                number("available", 9, 0),
                number("oldest", 9, 0),
                number("running", 8, 0),
                number("scheduled", 9, 3),
                number("retryable", 9, 0),
                number("discarded", 9, 1),
                number("runners", 7, 2),
                fill("depth", 1, 8, 4),
            ],
            Pane::Running => vec![
                fixed("job", 36, 2),
                fill("kind", 2, 14, 0),
                fill("queue", 1, 10, 0),
                number("for", 9, 0),
                number("attempt", 7, 0),
                fill("runner", 1, 12, 0),
                fill("progress", 1, 10, 1),
            ],
            Pane::Failing => vec![
                fill("kind", 2, 14, 0),
                fill("queues", 1, 10, 1),
                number("retryable", 9, 0),
                number("discarded", 9, 0),
                number("last", 11, 0),
                fill("error", 4, 20, 0),
            ],
            Pane::Keys => vec![
                fill("key", 2, 16, 0),
                fill("kind", 1, 12, 0),
                fixed("holder is", 9, 0),
                number("age", 9, 0),
                fixed("job", 36, 1),
                fill("free", 2, 20, 0),
            ],
            Pane::Waiting => vec![
                number("pid", 7, 0),
                fixed("application", 12, 0),
                number("waiting", 9, 0),
                fixed("for", 16, 0),
                fill("of session", 3, 20, 0),
                number("open", 8, 0),
                fill("its last statement", 2, 20, 1),
            ],
            Pane::Groups => vec![
                fill("group", 2, 14, 0),
                fill("queue", 1, 10, 0),
                number("running", 7, 1),
                number("waiting", 7, 0),
                number("oldest", 9, 0),
                fill("held up by", 2, 20, 0),
                fixed("until", 10, 2),
            ],
        }
    }
}

const HELD_UP: &str = "held up";

impl List {
    pub(super) fn new<'t, T: 't>(
        pane: Pane,
        items: impl IntoIterator<Item = &'t T>,
        row: impl Fn(&'t T) -> Option<Row>,
    ) -> Self {
        Self { columns: pane.columns(), rows: items.into_iter().filter_map(row).collect() }
    }

    /// Leaves out the groups that are held up where a list of queues has none: most queues have no groups, and the room is
    /// scarce.
    pub(super) fn without_empty_groups(mut self) -> Self {
        let is_empty = |row: &Row| row.cells.get(2).is_none_or(|cell| cell.text().is_empty());
        if self.columns.get(2).is_some_and(|column| column.name == HELD_UP) && self.rows.iter().all(is_empty) {
            self.columns.remove(2);
            self.columns[0].least = 16;
            self.rows.iter_mut().for_each(|row| drop(row.cells.remove(2)));
        }
        self
    }
}

impl Row {
    pub(super) fn new<const N: usize>(cells: [Cell; N]) -> Self {
        Self { cells: cells.into(), ..Self::default() }
    }
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
        let depth = queue.available.counted();
        trouble(Status::of(queue), depth, held(queue) > 0, queue.oldest_available_age)
    });
    let list = List::new(Pane::Queues, order, |queue| {
        let held = match held(queue) {
            0 => String::new(),
            held if has_all_groups => held.to_string(),
            held => format!("{held}+"),
        };
        let (status, limit) = (Status::of(queue), queue.settings.limit);
        let name = queue.settings.name.to_string();
        let is_stopped = matches!(status, Status::Paused | Status::Held);
        let row = Row::new([
            Cell::new(&name),
            is(status, limit),
            Cell::new(held).style(Style::Warn),
            Cell::new(queue.available.to_string()),
            Cell::new(queue.oldest_available_age.map(format_duration).unwrap_or_default()),
            Cell::new(queue.running.to_string()),
            Cell::new(queue.scheduled.to_string()),
            Cell::new(queue.retryable.to_string()),
            Cell::new(queue.discarded.to_string()),
            Cell::new(queue.runners.to_string()),
            Cell::new(""),
        ]);
        Some(Row { queue: Some(Queue { name, is_stopped, depth: queue.available.counted() }), ..row })
    });
    list.without_empty_groups()
}

/// The status of a queue that is paused, held or without a runner, else its limit.
pub(super) fn is(status: Status, limit: Option<u32>) -> Cell {
    match (status, limit) {
        (Status::Paused | Status::Held, _) => Cell::new(status.as_str()).style(Style::Warn),
        (Status::NoRunner, _) => Cell::new(status.as_str()).style(Style::Bad),
        (_, limit) => Cell::new(limit.map(|limit| format!("limit {limit}")).unwrap_or_default()),
    }
}

/// The rank of a queue's trouble: the least comes first. Among queues of one rank, that whose oldest job waits longest.
pub(super) fn trouble(
    status: Status,
    depth: u64,
    has_held_groups: bool,
    oldest: Option<Duration>,
) -> (u8, Reverse<Option<Duration>>) {
    let rank = match status {
        Status::NoRunner => 0,
        Status::Paused | Status::Held if depth > 0 => 1,
        _ if has_held_groups => 2,
        Status::AtItsLimit => 3,
        Status::Waiting => 4,
        Status::Paused | Status::Held | Status::Working | Status::Idle => 5,
    };
    (rank, Reverse(oldest))
}

pub(super) fn running(job: &RunningJobInfo) -> Option<Row> {
    let runner = job.runner.as_deref().unwrap_or("unknown");
    let row = Row::new([
        Cell::new(job.id.to_string()),
        Cell::new(&job.kind),
        Cell::new(&job.queue),
        Cell::new(job.running_for.map(format_duration).unwrap_or_default()),
        Cell::new(format!("{}/{}", job.attempt, job.max_attempts)),
        match job.runner_is_alive {
            true => Cell::new(runner),
            false => Cell::new(format!("dead: {runner}")).style(Style::Bad),
        },
        Cell::new(job.progress.as_ref().map(progress).unwrap_or_default()),
    ]);
    Some(Row { job: Some(job.id), ..row })
}

/// Writes a progress. `{"done": 3, "total": 4}` is the usual form.
fn progress(reported: &serde_json::Value) -> String {
    let number = |name: &str| reported.get(name).and_then(serde_json::Value::as_f64);
    match (number("done"), number("total")) {
        (Some(done), Some(total)) if total > 0.0 => format!("{:.0}% of {total}", done / total * 100.0),
        _ => reported.as_str().map_or_else(|| reported.to_string(), str::to_owned),
    }
}

pub(super) fn failing(failing: &FailingKind, now: OffsetDateTime) -> Option<Row> {
    let row = Row::new([
        Cell::new(&failing.kind),
        Cell::new(failing.queues.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        Cell::new(failing.retryable.to_string()),
        Cell::new(failing.discarded.to_string()).style(Style::Bad),
        Cell::new(failing.last_failed_at.map(|at| format_relative(at, now)).unwrap_or_default()),
        Cell::new(failing.last_error.as_deref().unwrap_or_default()),
    ]);
    Some(Row { kind: Some(failing.kind.to_string()), job: failing.last_job, ..row })
}

pub(super) fn key(held: &KeyHolder) -> Option<Row> {
    let row = Row::new([
        Cell::new(&held.claim.unique_key),
        Cell::new(&held.kind),
        Cell::new(held.claim.holder_state.as_str()),
        Cell::new(format_duration(held.claim.holder_age)),
        Cell::new(held.claim.holder.to_string()),
        Cell::new(held.claim.frees()),
    ]);
    Some(Row { job: Some(held.claim.holder), ..row })
}

pub(super) fn waiting(waiting: &WaitingInsert) -> Option<Row> {
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    let blocker = format!("{}, {}", known(&waiting.blocker_application), known(&waiting.blocker_state));
    Some(Row::new([
        Cell::new(waiting.pid.to_string()),
        Cell::new(known(&waiting.application)),
        Cell::new(waiting.waiting_for.map(format_duration).unwrap_or_default()),
        Cell::new(match &waiting.unique_key {
            Some(key) => format!("{} ({key})", waiting.waits_for),
            None => waiting.waits_for.clone(),
        }),
        Cell::new(waiting.blocker_pid.map_or_else(|| blocker.clone(), |pid| format!("{pid} {blocker}")))
            .style(Style::Bad),
        Cell::new(waiting.blocker_open_for.map(format_duration).unwrap_or_default()),
        Cell::new(known(&waiting.blocker_query)),
    ]))
}

/// A group that is held up. `None`: nothing holds it up.
pub(super) fn group(group: &GroupInfo, now: OffsetDateTime) -> Option<Row> {
    let limit = group.limit.map(|limit| format!("/{limit}")).unwrap_or_default();
    let age = group.head_since.map(|since| Duration::try_from(now - since).unwrap_or_default());
    let row = Row::new([
        Cell::new(&group.group),
        Cell::new(&group.queue),
        Cell::new(format!("{}{limit}", group.running)),
        Cell::new(group.waiting.to_string()),
        Cell::new(age.map(format_duration).unwrap_or_default()),
        Cell::new(short(group.held_by.as_ref()?)).style(Style::Warn),
        Cell::new(group.held_until.map(|until| format_relative(until, now)).unwrap_or_default()),
    ]);
    Some(Row { job: group.head, ..row })
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
