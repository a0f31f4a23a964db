//! The state of the screen. It knows no terminal and no database.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use uniqueue::JobId;

use super::snapshot::Snapshot;
use crate::queue::Status;

/// How many snapshots a sparkline covers.
pub(super) const HISTORY: usize = 120;

/// How long a notice stays.
pub(super) const NOTICE: Duration = Duration::from_secs(8);

/// The lists of the screen, in the order of their keys.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Pane {
    Queues,
    Running,
    Failing,
    Keys,
    Waiting,
    Groups,
}

impl Pane {
    pub(super) const ALL: [Pane; 6] =
        [Pane::Queues, Pane::Running, Pane::Failing, Pane::Keys, Pane::Waiting, Pane::Groups];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Pane::Queues => "queues",
            Pane::Running => "running",
            Pane::Failing => "failing",
            Pane::Keys => "keys",
            Pane::Waiting => "waiting inserts",
            Pane::Groups => "groups",
        }
    }
}

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
        self.depths.retain(|name, _| snapshot.queues.iter().any(|queue| queue.name == *name));
        for queue in &snapshot.queues {
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

    fn apply_snapshot(&mut self, snapshot: Snapshot, now: Instant) {
        let selected = self.selected_row(Pane::Queues).ok().map(|(old, index)| old.queues[index].name.clone());
        self.history.push(&snapshot);
        self.latest = Some((snapshot, now));
        self.problem = None;
        // The order of queues changes with their trouble. The selected queue stays the selected one.
        let shown = self.shown(Pane::Queues);
        let is_selected = |index: &usize| self.snapshot().map(|new| &new.queues[*index].name) == selected.as_ref();
        if let Some(position) = shown.iter().position(is_selected) {
            self.selected.insert(Pane::Queues, position);
        }
        for pane in Pane::ALL {
            let last = self.shown(pane).len().saturating_sub(1);
            self.selected.entry(pane).and_modify(|selected| *selected = (*selected).min(last));
        }
    }

    /// The indexes of the rows of a list that match the filter.
    pub(super) fn shown(&self, pane: Pane) -> Vec<usize> {
        let Some(snapshot) = self.snapshot() else { return Vec::new() };
        let filter = self.filter.to_lowercase();
        let matches =
            |texts: &[&str]| filter.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&filter));
        let select =
            |count: usize, matches: &dyn Fn(usize) -> bool| (0..count).filter(|index| matches(*index)).collect();
        match pane {
            Pane::Queues => select(snapshot.queues.len(), &|index| matches(&[&snapshot.queues[index].name])),
            Pane::Running => select(snapshot.running.len(), &|index| {
                let job = &snapshot.running[index];
                matches(&[&job.id, &job.kind, &job.queue, &job.runner])
            }),
            Pane::Failing => select(snapshot.failing.len(), &|index| {
                let failing = &snapshot.failing[index];
                matches(&[&failing.kind, &failing.queues, &failing.error])
            }),
            Pane::Keys => select(snapshot.keys.len(), &|index| {
                let key = &snapshot.keys[index];
                matches(&[&key.key, &key.kind, &key.state, &key.holder])
            }),
            Pane::Waiting => select(snapshot.waiting.len(), &|index| {
                let waiting = &snapshot.waiting[index];
                matches(&[&waiting.application, &waiting.waits_for, &waiting.blocker, &waiting.query])
            }),
            Pane::Groups => select(snapshot.groups.len(), &|index| {
                let group = &snapshot.groups[index];
                matches(&[&group.group, &group.queue, &group.held_by])
            }),
        }
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

    /// Shows and selects a list.
    pub(super) fn switch_to(&mut self, pane: Pane) {
        self.pane = pane;
        if pane != Pane::Queues {
            self.lower_pane = pane;
        }
    }

    pub(super) fn pause_or_resume(&self) -> Result<Action, &'static str> {
        let (snapshot, index) = self.selected_row(Pane::Queues)?;
        let queue = &snapshot.queues[index];
        let name = queue.name.clone();
        Ok(if matches!(queue.status, Status::Paused | Status::Held) {
            Action::Resume(name)
        } else {
            Action::Pause(name)
        })
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
        match self.pane {
            Pane::Failing => {
                let (snapshot, index) = self.selected_row(Pane::Failing)?;
                Ok(Action::Retry(snapshot.failing[index].kind.clone()))
            }
            _ => Err("retry: select a failing kind (3)"),
        }
    }

    pub(super) fn inspect(&self) -> Result<Action, &'static str> {
        if self.pane == Pane::Queues {
            let (snapshot, index) = self.selected_row(Pane::Queues)?;
            return Ok(Action::List(snapshot.queues[index].name.clone()));
        }
        self.selected_job().map(Action::Inspect)
    }

    fn selected_job(&self) -> Result<JobId, &'static str> {
        let none = "no job to inspect: select a running job (2), a failing kind (3), a key (4) or a group (6)";
        let (snapshot, index) = self.selected_row(self.pane)?;
        match self.pane {
            Pane::Running => snapshot.running[index].id.parse().map_err(|_| none),
            Pane::Failing => snapshot.failing[index].job.ok_or(none),
            Pane::Keys => snapshot.keys[index].holder.parse().map_err(|_| none),
            Pane::Groups => snapshot.groups[index].head.ok_or(none),
            Pane::Queues | Pane::Waiting => Err(none),
        }
    }

    fn selected_row(&self, pane: Pane) -> Result<(&Snapshot, usize), &'static str> {
        let snapshot = self.snapshot().ok_or("there are no numbers yet")?;
        let shown = self.shown(pane);
        let index = shown.get(self.selected(pane)).ok_or("the list is empty")?;
        Ok((snapshot, *index))
    }
}
