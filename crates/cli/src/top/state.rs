//! The state of the screen. It knows no terminal and no database.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::lists::{List, Pane, Queue, Row, sparkline};
use crate::prelude::*;

/// How many snapshots a sparkline covers.
pub(super) const HISTORY: usize = 120;

/// How many of them the column of a queue has.
const SPARKLINE: usize = 20;

/// How long a notice stays.
pub(super) const NOTICE: Duration = Duration::from_secs(8);

/// Something to do with the database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Action {
    Pause(String),
    Resume(String),
    Cancel(JobId),
    /// Retries the discarded and retryable jobs of a kind.
    Retry(String),
    /// Shows a job in full.
    Inspect(JobId),
    /// Lists the unfinished jobs of a queue.
    List(String),
}

impl Action {
    /// The question before the action. `None` if it changes nothing.
    pub(super) fn question(&self) -> Option<String> {
        match self {
            Action::Pause(queue) => Some(format!("Pause queue {queue}? Running jobs are finished.")),
            Action::Resume(queue) => Some(format!("Resume queue {queue}?")),
            Action::Cancel(job) => Some(format!("Cancel job {job}? Its worker is told to stop.")),
            Action::Retry(kind) => Some(format!("Retry the discarded and retryable jobs of kind {kind}?")),
            Action::Inspect(_) | Action::List(_) => None,
        }
    }
}

/// A message from a task to the loop.
#[derive(Debug)]
pub(super) enum Update {
    Snapshot(Box<Snapshot>),
    SnapshotFailed(String),
    /// The result of an action.
    Notice(String),
    /// How many jobs the running retry has retried.
    RetryProgress(u64),
    /// The result of the retry.
    RetryDone(String),
    /// A job in full.
    Text {
        title: String,
        lines: Vec<String>,
    },
}

/// One view of the database.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The database's time of day.
    pub(super) clock: String,
    /// How long its queries took.
    pub(super) took: Duration,
    pub(super) runners: u64,
    /// Jobs a second.
    pub(super) inserted: f64,
    pub(super) completed: f64,
    pub(super) failed: f64,
    /// In the order of [`Pane::ALL`].
    pub(super) lists: [List; 6],
}

impl Snapshot {
    fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.lists[Pane::Queues as usize].rows.iter().filter_map(|row| row.queue.as_ref())
    }
}

/// The retry that is running.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Retry {
    pub(super) kind: String,
    /// How many jobs are available again.
    pub(super) retried: u64,
}

/// A window over the lists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Overlay {
    None,
    Help,
    Filter,
    Confirm(Action),
    Text { title: String, lines: Vec<String>, scroll: usize },
}

/// The values of the sparklines: one for each snapshot.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Tenths of jobs a second.
    pub(super) inserted: VecDeque<u64>,
    pub(super) completed: VecDeque<u64>,
    pub(super) failed: VecDeque<u64>,
    /// The available jobs of each queue.
    pub(super) depths: HashMap<String, VecDeque<u64>>,
}

impl History {
    fn push(&mut self, snapshot: &Snapshot) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are small and not negative")]
        let tenths = |rate: f64| (rate.max(0.0) * 10.0) as u64;
        push(&mut self.inserted, tenths(snapshot.inserted));
        push(&mut self.completed, tenths(snapshot.completed));
        push(&mut self.failed, tenths(snapshot.failed));
        self.depths.retain(|name, _| snapshot.queues().any(|queue| queue.name == *name));
        for queue in snapshot.queues() {
            push(self.depths.entry(queue.name.clone()).or_default(), queue.depth);
        }
    }
}

fn push(values: &mut VecDeque<u64>, value: u64) {
    if values.len() == HISTORY {
        values.pop_front();
    }
    values.push_back(value);
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct State {
    pub(super) title: String,
    pub(super) interval: Duration,
    /// The latest snapshot, and when it arrived.
    pub(super) latest: Option<(Snapshot, Instant)>,
    pub(super) history: History,
    /// Why the last snapshot failed.
    pub(super) problem: Option<String>,
    /// The result of the last action. It ends by itself.
    pub(super) notice: Option<String>,
    /// The notice that was last seen by a tick, and when it was first seen.
    noticed: Option<(String, Instant)>,
    /// The running retry. A second one would leave no connection for snapshots.
    pub(super) retry: Option<Retry>,
    pub(super) pane: Pane,
    /// The list below the queues.
    pub(super) lower_pane: Pane,
    pub(super) filter: String,
    pub(super) overlay: Overlay,
    selected: HashMap<Pane, usize>,
}

impl State {
    pub(super) fn new(title: String, interval: Duration) -> Self {
        Self {
            title,
            interval,
            latest: None,
            history: History::default(),
            problem: None,
            notice: None,
            noticed: None,
            retry: None,
            pane: Pane::Queues,
            lower_pane: Pane::Running,
            filter: String::new(),
            overlay: Overlay::None,
            selected: HashMap::new(),
        }
    }

    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.latest.as_ref().map(|(snapshot, _)| snapshot)
    }

    /// A list. `None`: no snapshot has arrived.
    pub(super) fn list(&self, pane: Pane) -> Option<&List> {
        Some(&self.snapshot()?.lists[pane as usize])
    }

    /// Ends a notice that has been there long enough to be read.
    pub(super) fn tick(&mut self, now: Instant) {
        match (&self.notice, &self.noticed) {
            (None, _) => self.noticed = None,
            (Some(notice), Some((seen, since))) if notice == seen => {
                if now.saturating_duration_since(*since) >= NOTICE {
                    (self.notice, self.noticed) = (None, None);
                }
            }
            (Some(notice), _) => self.noticed = Some((notice.clone(), now)),
        }
    }

    /// Applies an update that arrived at this time.
    pub(super) fn apply(&mut self, update: Update, now: Instant) {
        match update {
            Update::Snapshot(snapshot) => self.apply_snapshot(*snapshot, now),
            Update::SnapshotFailed(problem) => self.problem = Some(problem),
            Update::Notice(notice) => self.notice = Some(notice),
            Update::RetryProgress(retried) => {
                if let Some(retry) = &mut self.retry {
                    retry.retried = retried;
                }
            }
            Update::RetryDone(notice) => {
                self.retry = None;
                self.notice = Some(notice);
            }
            Update::Text { title, lines } => self.overlay = Overlay::Text { title, lines, scroll: 0 },
        }
    }

    fn apply_snapshot(&mut self, mut snapshot: Snapshot, now: Instant) {
        let selected = self.selected_queue().ok().map(|queue| queue.name.clone());
        self.history.push(&snapshot);
        for row in &mut snapshot.lists[Pane::Queues as usize].rows {
            let depths = row.queue.as_ref().and_then(|queue| self.history.depths.get(&queue.name));
            if let (Some(depths), Some(cell)) = (depths, row.cells.last_mut()) {
                *cell = Cell::new(sparkline(depths, SPARKLINE));
            }
        }
        self.latest = Some((snapshot, now));
        self.problem = None;
        // The order of queues changes with their trouble. The selected queue stays the selected one.
        let mut names = self.shown_rows(Pane::Queues).map(|(_, row)| row.queue.as_ref().map(|queue| &queue.name));
        let position = names.position(|name| name == selected.as_ref());
        drop(names);
        if let Some(position) = position {
            self.selected.insert(Pane::Queues, position);
        }
        for pane in Pane::ALL {
            let last = self.shown(pane).len().saturating_sub(1);
            self.selected.entry(pane).and_modify(|selected| *selected = (*selected).min(last));
        }
    }

    /// The indexes of the rows of a list that match the filter.
    pub(super) fn shown(&self, pane: Pane) -> Vec<usize> {
        self.shown_rows(pane).map(|(index, _)| index).collect()
    }

    fn shown_rows(&self, pane: Pane) -> impl Iterator<Item = (usize, &Row)> {
        let filter = self.filter.to_lowercase();
        let list = self.list(pane);
        let matches = move |row: &Row| {
            let columns = list.into_iter().flat_map(|list| &list.columns);
            let mut texts = columns.zip(&row.cells).filter(|(column, _)| !column.is_number);
            filter.is_empty() || texts.any(|(_, cell)| cell.text.to_lowercase().contains(&filter))
        };
        list.into_iter().flat_map(|list| &list.rows).enumerate().filter(move |(_, row)| matches(row))
    }

    /// The position of the selected row among the shown rows of a list.
    pub(super) fn selected(&self, pane: Pane) -> usize {
        let last = self.shown(pane).len().saturating_sub(1);
        self.selected.get(&pane).copied().unwrap_or(0).min(last)
    }

    /// Selects a row of the current list, or the last one.
    pub(super) fn select(&mut self, position: usize) {
        let last = self.shown(self.pane).len().saturating_sub(1);
        self.selected.insert(self.pane, position.min(last));
    }

    /// Shows and selects a list. Behind the last one comes the first.
    pub(super) fn switch_to(&mut self, index: usize) {
        self.pane = Pane::ALL[index % Pane::ALL.len()];
        if self.pane != Pane::Queues {
            self.lower_pane = self.pane;
        }
    }

    pub(super) fn pause_or_resume(&self) -> Result<Action, &'static str> {
        let queue = self.selected_queue()?;
        Ok(if queue.is_stopped { Action::Resume(queue.name.clone()) } else { Action::Pause(queue.name.clone()) })
    }

    pub(super) fn cancel(&self) -> Result<Action, &'static str> {
        match self.pane {
            Pane::Running | Pane::Keys => self.selected_job().map(Action::Cancel),
            _ => Err("cancel: select a running job (2) or the holder of a key (4)"),
        }
    }

    pub(super) fn retry(&self) -> Result<Action, &'static str> {
        if self.retry.is_some() {
            return Err("retry: another retry is running");
        }
        if self.pane != Pane::Failing {
            return Err("retry: select a failing kind (3)");
        }
        self.selected_row(self.pane)?.kind.clone().map(Action::Retry).ok_or("retry: select a failing kind (3)")
    }

    pub(super) fn inspect(&self) -> Result<Action, &'static str> {
        match self.pane {
            Pane::Queues => Ok(Action::List(self.selected_queue()?.name.clone())),
            _ => self.selected_job().map(Action::Inspect),
        }
    }

    fn selected_job(&self) -> Result<JobId, &'static str> {
        let none = "no job to inspect: select a running job (2), a failing kind (3), a key (4) or a group (6)";
        self.selected_row(self.pane)?.job.ok_or(none)
    }

    fn selected_queue(&self) -> Result<&Queue, &'static str> {
        self.selected_row(Pane::Queues)?.queue.as_ref().ok_or(EMPTY)
    }

    fn selected_row(&self, pane: Pane) -> Result<&Row, &'static str> {
        let list = self.list(pane).ok_or("there are no numbers yet")?;
        let shown = self.shown(pane);
        shown.get(self.selected(pane)).and_then(|index| list.rows.get(*index)).ok_or(EMPTY)
    }
}

const EMPTY: &str = "the list is empty";
