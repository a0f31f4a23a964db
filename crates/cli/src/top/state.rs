//! What the screen is about: what was seen last, what is chosen, and what keys do. Knows no terminal and no database.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use uniqueue::JobId;

use super::rows::Snapshot;
use crate::queue::Status;

/// How many looks the lines of the past have.
pub(super) const HISTORY: usize = 120;

/// The lists of the screen, in the order of their keys.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Pane {
    Queues,
    Running,
    Failing,
    Keys,
    Waiting,
}

impl Pane {
    pub(super) const ALL: [Pane; 5] = [Pane::Queues, Pane::Running, Pane::Failing, Pane::Keys, Pane::Waiting];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Pane::Queues => "queues",
            Pane::Running => "running",
            Pane::Failing => "failing",
            Pane::Keys => "keys",
            Pane::Waiting => "waiting inserts",
        }
    }
}

/// Something to be done to the database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Action {
    Pause(String),
    Resume(String),
    Cancel(JobId),
    /// The discarded and retryable jobs of a kind.
    Retry(String),
    /// Shows a job in full.
    Inspect(JobId),
}

impl Action {
    /// What to ask before it is done. `None`: it changes nothing.
    pub(super) fn question(&self) -> Option<String> {
        match self {
            Action::Pause(queue) => Some(format!("Pause queue {queue}? What runs is finished.")),
            Action::Resume(queue) => Some(format!("Resume queue {queue}?")),
            Action::Cancel(job) => Some(format!("Cancel job {job}? Its worker is told to stop.")),
            Action::Retry(kind) => Some(format!("Retry the discarded and retryable jobs of kind {kind}?")),
            Action::Inspect(_) => None,
        }
    }
}

/// A retry that is under way.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Retry {
    pub(super) kind: String,
    /// How many jobs are available again.
    pub(super) so_far: u64,
}

/// What the loop does after a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Reply {
    /// Nothing but drawing.
    Draw,
    Do(Action),
    Quit,
}

/// What lies over the lists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Over {
    Nothing,
    Help,
    Filter,
    Confirm(Action),
    Text { title: String, lines: Vec<String>, scroll: usize },
}

/// The screen's state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) title: String,
    pub(super) interval: Duration,
    pub(super) snapshot: Option<Snapshot>,
    /// When that was seen.
    pub(super) seen_at: Option<Instant>,
    /// Why the last look failed.
    pub(super) trouble: Option<String>,
    /// What became of the last action.
    pub(super) notice: Option<String>,
    /// The one retry that is under way: more would leave no connection to look with.
    pub(super) retry: Option<Retry>,
    pub(super) pane: Pane,
    /// The list under the queues.
    pub(super) lower: Pane,
    pub(super) filter: String,
    pub(super) over: Over,
    chosen: HashMap<Pane, usize>,
    pub(super) inserted: VecDeque<u64>,
    pub(super) completed: VecDeque<u64>,
    pub(super) failed: VecDeque<u64>,
    /// The depth of each queue, look by look.
    pub(super) depths: HashMap<String, VecDeque<u64>>,
}

impl State {
    pub(super) fn new(title: String, interval: Duration) -> Self {
        Self {
            title,
            interval,
            snapshot: None,
            seen_at: None,
            trouble: None,
            notice: None,
            retry: None,
            pane: Pane::Queues,
            lower: Pane::Running,
            filter: String::new(),
            over: Over::Nothing,
            chosen: HashMap::new(),
            inserted: VecDeque::new(),
            completed: VecDeque::new(),
            failed: VecDeque::new(),
            depths: HashMap::new(),
        }
    }

    /// Takes what a look saw.
    pub(super) fn see(&mut self, snapshot: Snapshot, now: Instant) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are small and not negative")]
        let tenths = |rate: f64| (rate.max(0.0) * 10.0) as u64;
        push(&mut self.inserted, tenths(snapshot.inserted));
        push(&mut self.completed, tenths(snapshot.completed));
        push(&mut self.failed, tenths(snapshot.failed));
        self.depths.retain(|name, _| snapshot.queues.iter().any(|queue| queue.name == *name));
        for queue in &snapshot.queues {
            push(self.depths.entry(queue.name.clone()).or_default(), queue.depth);
        }
        self.snapshot = Some(snapshot);
        self.seen_at = Some(now);
        self.trouble = None;
        for pane in Pane::ALL {
            let last = self.len(pane).saturating_sub(1);
            self.chosen.entry(pane).and_modify(|chosen| *chosen = (*chosen).min(last));
        }
    }

    /// Takes how far the retry is.
    pub(super) fn see_retry(&mut self, so_far: u64) {
        if let Some(retry) = &mut self.retry {
            retry.so_far = so_far;
        }
    }

    /// Which rows of a list the filter leaves, by their places.
    pub(super) fn shown(&self, pane: Pane) -> Vec<usize> {
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        let wanted = self.filter.to_lowercase();
        let fits = |texts: &[&str]| wanted.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&wanted));
        let places = |count: usize, fits: &dyn Fn(usize) -> bool| (0..count).filter(|place| fits(*place)).collect();
        match pane {
            Pane::Queues => places(snapshot.queues.len(), &|at| fits(&[&snapshot.queues[at].name])),
            Pane::Running => places(snapshot.running.len(), &|at| {
                let job = &snapshot.running[at];
                fits(&[&job.id, &job.kind, &job.queue, &job.runner])
            }),
            Pane::Failing => places(snapshot.failing.len(), &|at| {
                let failing = &snapshot.failing[at];
                fits(&[&failing.kind, &failing.queues, &failing.error])
            }),
            Pane::Keys => places(snapshot.keys.len(), &|at| {
                let key = &snapshot.keys[at];
                fits(&[&key.key, &key.kind, &key.state, &key.holder])
            }),
            Pane::Waiting => places(snapshot.waiting.len(), &|at| {
                let waiting = &snapshot.waiting[at];
                fits(&[&waiting.application, &waiting.waits_for, &waiting.blocker, &waiting.query])
            }),
        }
    }

    fn len(&self, pane: Pane) -> usize {
        self.shown(pane).len()
    }

    /// Which of the shown rows of a list is chosen.
    pub(super) fn chosen(&self, pane: Pane) -> usize {
        let last = self.len(pane).saturating_sub(1);
        self.chosen.get(&pane).copied().unwrap_or(0).min(last)
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyEvent) -> Reply {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Reply::Quit;
        }
        match std::mem::replace(&mut self.over, Over::Nothing) {
            Over::Nothing => self.press_in_list(key.code),
            // Any key puts the help away.
            Over::Help => Reply::Draw,
            Over::Filter => {
                self.press_in_filter(key.code);
                Reply::Draw
            }
            Over::Confirm(action) => match key.code {
                KeyCode::Char('y' | 'Y') => {
                    self.notice = None;
                    if let Action::Retry(kind) = &action {
                        self.retry = Some(Retry { kind: kind.clone(), so_far: 0 });
                    }
                    Reply::Do(action)
                }
                _ => {
                    self.notice = Some("nothing was changed".to_owned());
                    Reply::Draw
                }
            },
            Over::Text { title, lines, scroll } => {
                let last = lines.len().saturating_sub(1);
                let scroll = match key.code {
                    KeyCode::Down | KeyCode::Char('j') => Some((scroll + 1).min(last)),
                    KeyCode::Up | KeyCode::Char('k') => Some(scroll.saturating_sub(1)),
                    KeyCode::PageDown => Some((scroll + 10).min(last)),
                    KeyCode::PageUp => Some(scroll.saturating_sub(10)),
                    _ => None,
                };
                if let Some(scroll) = scroll {
                    self.over = Over::Text { title, lines, scroll };
                }
                Reply::Draw
            }
        }
    }

    fn press_in_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                self.filter.clear();
                return;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.over = Over::Filter;
    }

    fn press_in_list(&mut self, code: KeyCode) -> Reply {
        match code {
            KeyCode::Char('q') => return Reply::Quit,
            KeyCode::Char('?' | 'h') => self.over = Over::Help,
            KeyCode::Char('/') => self.over = Over::Filter,
            KeyCode::Esc => {
                self.filter.clear();
                self.notice = None;
            }
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.chosen(self.pane).saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.choose(self.chosen(self.pane).saturating_sub(1)),
            KeyCode::PageDown => self.choose(self.chosen(self.pane).saturating_add(10)),
            KeyCode::PageUp => self.choose(self.chosen(self.pane).saturating_sub(10)),
            KeyCode::Home => self.choose(0),
            KeyCode::End => self.choose(usize::MAX),
            KeyCode::Tab | KeyCode::Right => self.go(1),
            KeyCode::BackTab | KeyCode::Left => self.go(Pane::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => {
                let place = digit.to_digit(10).map_or(0, |digit| digit as usize - 1);
                self.turn_to(Pane::ALL[place]);
            }
            KeyCode::Enter | KeyCode::Char('i') => return self.wish(Self::inspection),
            KeyCode::Char('p') => return self.wish(Self::pausing),
            KeyCode::Char('c') => return self.wish(Self::cancelling),
            KeyCode::Char('r') => return self.wish(Self::retrying),
            _ => {}
        }
        Reply::Draw
    }

    fn go(&mut self, steps: usize) {
        let at = Pane::ALL.iter().position(|pane| *pane == self.pane).unwrap_or(0);
        self.turn_to(Pane::ALL[(at + steps) % Pane::ALL.len()]);
    }

    fn turn_to(&mut self, pane: Pane) {
        self.pane = pane;
        if pane != Pane::Queues {
            self.lower = pane;
        }
    }

    fn choose(&mut self, place: usize) {
        let last = self.len(self.pane).saturating_sub(1);
        self.chosen.insert(self.pane, place.min(last));
    }

    /// Asks for an action of the chosen row, or says why there is none.
    fn wish(&mut self, action: impl Fn(&Self) -> Result<Action, &'static str>) -> Reply {
        match action(self) {
            Ok(action) if action.question().is_some() => self.over = Over::Confirm(action),
            Ok(action) => return Reply::Do(action),
            Err(why) => self.notice = Some(why.to_owned()),
        }
        Reply::Draw
    }

    fn place(&self, pane: Pane) -> Result<(&Snapshot, usize), &'static str> {
        let snapshot = self.snapshot.as_ref().ok_or("nothing was seen yet")?;
        let shown = self.shown(pane);
        let place = shown.get(self.chosen(pane)).ok_or("the list is empty")?;
        Ok((snapshot, *place))
    }

    fn pausing(&self) -> Result<Action, &'static str> {
        let (snapshot, place) = self.place(Pane::Queues)?;
        let queue = &snapshot.queues[place];
        let name = queue.name.clone();
        Ok(if queue.status == Status::Paused { Action::Resume(name) } else { Action::Pause(name) })
    }

    fn cancelling(&self) -> Result<Action, &'static str> {
        match self.pane {
            Pane::Running | Pane::Keys => self.job().map(Action::Cancel),
            _ => Err("cancel: choose a job among the running (2) or the holders of keys (4)"),
        }
    }

    fn retrying(&self) -> Result<Action, &'static str> {
        if self.retry.is_some() {
            return Err("retry: one is under way; its end is told");
        }
        match self.pane {
            Pane::Failing => {
                let (snapshot, place) = self.place(Pane::Failing)?;
                Ok(Action::Retry(snapshot.failing[place].kind.clone()))
            }
            _ => Err("retry: choose a kind among the failing (3)"),
        }
    }

    fn inspection(&self) -> Result<Action, &'static str> {
        self.job().map(Action::Inspect)
    }

    /// The job of the chosen row.
    fn job(&self) -> Result<JobId, &'static str> {
        let none = "there is no job to look at: choose one among the running (2), the failing (3) or the keys (4)";
        let (snapshot, place) = self.place(self.pane)?;
        match self.pane {
            Pane::Running => snapshot.running[place].id.parse().map_err(|_| none),
            Pane::Failing => snapshot.failing[place].job.ok_or(none),
            Pane::Keys => snapshot.keys[place].holder.parse().map_err(|_| none),
            Pane::Queues | Pane::Waiting => Err(none),
        }
    }
}

fn push(history: &mut VecDeque<u64>, value: u64) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(value);
}
