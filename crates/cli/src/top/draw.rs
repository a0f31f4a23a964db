//! The screen: a state drawn into a frame, and nothing else.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};

use super::over;
use super::rows::Snapshot;
use super::state::{Pane, Retry, State};
use crate::output::{count, plain, span};
use crate::queue::Status;

/// Colours, or only bold and reversed where nobody wants them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    pub(super) has_colors: bool,
}

impl Palette {
    fn of(self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }

    pub(super) fn bad(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn warn(self) -> Style {
        self.of(Color::Yellow)
    }

    pub(super) fn good(self) -> Style {
        self.of(Color::Green)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, now: Instant, palette: Palette) {
    let queues = state.shown(Pane::Queues).len().max(1);
    // The queues get what they need, and at most two fifths.
    let most = frame.area().height.saturating_sub(5) * 2 / 5;
    let wanted = u16::try_from(queues + 3).unwrap_or(u16::MAX).clamp(4, most.max(4));
    let [head, rates, top, bottom, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(wanted),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, state, now, palette);
    draw_rates(frame, rates, state, palette);
    let nothing = Snapshot::default();
    let snapshot = state.snapshot.as_ref().unwrap_or(&nothing);
    draw_list(frame, top, state, snapshot, Pane::Queues, palette);
    draw_list(frame, bottom, state, snapshot, state.lower, palette);
    draw_foot(frame, foot, state, palette);
    over::draw(frame, state, palette);
}

/// Where one is, and how fresh the numbers are.
fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State, now: Instant, palette: Palette) {
    let mut spans = vec![Span::styled(format!("uniqueue top  {}  ", state.title), palette.strong())];
    match (&state.snapshot, state.seen_at) {
        (Some(snapshot), Some(seen_at)) => {
            let runners =
                if snapshot.runners == 1 { "1 runner".to_owned() } else { format!("{} runners", snapshot.runners) };
            let style = if snapshot.runners == 0 { palette.bad() } else { Style::new() };
            spans.push(Span::styled(format!("{runners}  "), style));
            let age = now.saturating_duration_since(seen_at);
            // A look that is late by two more is worth a word.
            let is_stale = age > state.interval * 3 + Duration::from_millis(500);
            let mut fresh = format!("{}  every {}", snapshot.clock, span(state.interval));
            if snapshot.took > state.interval {
                // The wait between two looks comes on top.
                fresh = format!("{fresh}, a look takes {}", span(snapshot.took));
            }
            match is_stale {
                true => spans.push(Span::styled(format!("{fresh}, seen {} ago  ", span(age)), palette.warn())),
                false => spans.push(Span::styled(format!("{fresh}  "), palette.faint())),
            }
        }
        _ => spans.push(Span::styled("looking…  ", palette.faint())),
    }
    if let Some(trouble) = &state.trouble {
        spans.push(Span::styled(plain(trouble).into_owned(), palette.bad()));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn draw_rates(frame: &mut Frame<'_>, area: Rect, state: &State, palette: Palette) {
    let snapshot = state.snapshot.as_ref();
    let columns: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3]).spacing(2).areas(area);
    let rates = [
        ("inserted", snapshot.map(|seen| seen.inserted), &state.inserted, Style::new()),
        ("completed", snapshot.map(|seen| seen.completed), &state.completed, palette.good()),
        ("failed", snapshot.map(|seen| seen.failed), &state.failed, palette.bad()),
    ];
    for (area, (name, rate, history, style)) in columns.into_iter().zip(rates) {
        let rate = rate.map_or_else(String::new, |rate| format!(" {rate:.1}/s"));
        let lines =
            vec![Line::from(format!("{name}{rate}")), Line::styled(sparkline(history, usize::from(area.width)), style)];
        frame.render_widget(Paragraph::new(lines), area);
    }
}

/// The last looks as bars, the highest as high as a line.
fn sparkline(history: &VecDeque<u64>, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let latest: Vec<u64> = history.iter().rev().take(width).rev().copied().collect();
    let highest = latest.iter().max().copied().unwrap_or(0);
    let bar = |value: u64| match highest {
        0 => BARS[0],
        highest => BARS[usize::try_from(value.saturating_mul(7).div_ceil(highest)).unwrap_or(7).min(7)],
    };
    latest.into_iter().map(bar).collect()
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, state: &State, snapshot: &Snapshot, pane: Pane, palette: Palette) {
    let shown = state.shown(pane);
    let (header, widths, rows) = match pane {
        Pane::Queues => queues(snapshot, &shown, state, palette),
        Pane::Running => running(snapshot, &shown, palette),
        Pane::Failing => failing(snapshot, &shown, palette),
        Pane::Keys => keys(snapshot, &shown),
        Pane::Waiting => waiting(snapshot, &shown, palette),
    };
    let is_chosen = state.pane == pane;
    let border = if is_chosen { palette.strong() } else { palette.faint() };
    let block = Block::bordered().border_style(border).title(title(state, pane, shown.len(), palette));
    if rows.is_empty() && state.snapshot.is_some() {
        let nothing = if state.filter.is_empty() { empty(pane) } else { "nothing fits the filter" };
        frame.render_widget(Paragraph::new(Line::styled(nothing, palette.faint())).block(block), area);
        return;
    }
    let highlight = if is_chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    let table = Table::new(rows, widths)
        .header(Row::new(header.iter().map(|name| Cell::from(*name))).style(palette.faint()))
        .block(block)
        .row_highlight_style(highlight);
    let mut table_state = TableState::new().with_selected(Some(state.chosen(pane)));
    frame.render_stateful_widget(table, area, &mut table_state);
}

/// The names of the lists that can be where this one is, with their keys.
fn title(state: &State, pane: Pane, count: usize, palette: Palette) -> Line<'static> {
    let panes: &[Pane] = if pane == Pane::Queues { &[Pane::Queues] } else { &Pane::ALL[1..] };
    let mut spans = vec![Span::raw(" ")];
    for one in panes {
        let key = Pane::ALL.iter().position(|known| known == one).map_or(0, |place| place + 1);
        let count = if *one == pane { count } else { state.shown(*one).len() };
        let is_urgent = *one == Pane::Waiting && count > 0;
        let style = match (*one == pane, is_urgent) {
            (_, true) => palette.bad(),
            (true, _) => palette.strong(),
            _ => palette.faint(),
        };
        spans.push(Span::styled(format!("{key} {} {count}", one.title()), style));
        spans.push(Span::raw("  "));
    }
    spans.pop();
    spans.push(Span::raw(" "));
    Line::from(spans)
}

const fn empty(pane: Pane) -> &'static str {
    match pane {
        Pane::Queues => "there is no queue yet: nothing was inserted, and no runner lives",
        Pane::Running => "no job is running",
        Pane::Failing => "no kind is failing",
        Pane::Keys => "no key is held",
        Pane::Waiting => "no insert waits for another transaction",
    }
}

type Listed = (&'static [&'static str], Vec<Constraint>, Vec<Row<'static>>);

fn text(text: &str) -> Cell<'static> {
    Cell::from(plain(text).into_owned())
}

fn number(text: impl ToString) -> Cell<'static> {
    Cell::from(Line::from(text.to_string()).right_aligned())
}

fn queues(snapshot: &Snapshot, shown: &[usize], state: &State, palette: Palette) -> Listed {
    use Constraint::{Fill, Length};
    let row = |place: &usize| {
        let queue = &snapshot.queues[*place];
        let status = match (queue.status, queue.limit) {
            (Status::Paused, _) => Span::styled(queue.status.as_str(), palette.warn()),
            (Status::NoRunner, _) => Span::styled(queue.status.as_str(), palette.bad()),
            (_, Some(limit)) => Span::raw(format!("limit {limit}")),
            _ => Span::raw(""),
        };
        let depths = state.depths.get(&queue.name).map(|depths| sparkline(depths, 20)).unwrap_or_default();
        let oldest = queue.oldest.map(span).unwrap_or_default();
        Row::new([
            text(&queue.name),
            Cell::from(Line::from(status)),
            number(&queue.available),
            number(oldest),
            number(&queue.running),
            number(&queue.scheduled),
            number(&queue.retryable),
            number(&queue.discarded),
            number(queue.runners),
            Cell::from(depths),
        ])
    };
    (
        &["queue", "", "available", "   oldest", " running", "scheduled", "retryable", "discarded", "runners", "depth"],
        vec![Fill(2), Length(9), Length(9), Length(9), Length(8), Length(9), Length(9), Length(9), Length(7), Fill(1)],
        shown.iter().map(row).collect(),
    )
}

fn running(snapshot: &Snapshot, shown: &[usize], palette: Palette) -> Listed {
    use Constraint::{Fill, Length};
    let row = |place: &usize| {
        let job = &snapshot.running[*place];
        let runner = match job.is_alive {
            true => text(&job.runner),
            false => Cell::from(Span::styled(format!("dead: {}", plain(&job.runner)), palette.bad())),
        };
        Row::new([
            text(&job.id),
            text(&job.kind),
            text(&job.queue),
            number(&job.running_for),
            number(&job.attempt),
            runner,
            text(&job.progress),
        ])
    };
    (
        &["job", "kind", "queue", "      for", "attempt", "runner", "progress"],
        vec![Length(36), Fill(2), Fill(1), Length(9), Length(7), Fill(1), Fill(1)],
        shown.iter().map(row).collect(),
    )
}

fn failing(snapshot: &Snapshot, shown: &[usize], palette: Palette) -> Listed {
    use Constraint::{Fill, Length};
    let row = |place: &usize| {
        let failing = &snapshot.failing[*place];
        let discarded = Span::styled(failing.discarded.to_string(), palette.bad());
        Row::new([
            text(&failing.kind),
            text(&failing.queues),
            number(failing.retryable),
            Cell::from(Line::from(discarded).right_aligned()),
            number(&failing.last),
            text(&failing.error),
        ])
    };
    (
        &["kind", "queues", "retryable", "discarded", "       last", "error"],
        vec![Fill(2), Fill(1), Length(9), Length(9), Length(11), Fill(4)],
        shown.iter().map(row).collect(),
    )
}

fn keys(snapshot: &Snapshot, shown: &[usize]) -> Listed {
    use Constraint::{Fill, Length};
    let row = |place: &usize| {
        let key = &snapshot.keys[*place];
        Row::new([
            text(&key.key),
            text(&key.kind),
            text(&key.state),
            number(&key.age),
            text(&key.holder),
            text(&format!("frees {}", key.frees)),
        ])
    };
    (
        &["key", "kind", "holder is", "      age", "job", "frees"],
        vec![Fill(2), Fill(1), Length(9), Length(9), Length(36), Fill(2)],
        shown.iter().map(row).collect(),
    )
}

fn waiting(snapshot: &Snapshot, shown: &[usize], palette: Palette) -> Listed {
    use Constraint::{Fill, Length};
    let row = |place: &usize| {
        let waiting = &snapshot.waiting[*place];
        Row::new([
            number(waiting.pid),
            text(&waiting.application),
            number(&waiting.waiting_for),
            text(&waiting.waits_for),
            Cell::from(Span::styled(waiting.blocker.clone(), palette.bad())),
            number(&waiting.open_for),
            text(&waiting.query),
        ])
    };
    (
        &["    pid", "application", "  waiting", "for", "of session", "    open", "its last statement"],
        vec![Length(7), Length(12), Length(9), Length(16), Fill(3), Length(8), Fill(2)],
        shown.iter().map(row).collect(),
    )
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State, palette: Palette) {
    let line = if let Some(Retry { kind, so_far }) = &state.retry {
        let notice = state.notice.as_ref().map(|notice| format!("; {}", plain(notice))).unwrap_or_default();
        Line::styled(format!("retrying kind {}: {} so far{notice}", plain(kind), count(*so_far)), palette.warn())
    } else if let Some(notice) = &state.notice {
        Line::styled(plain(notice).into_owned(), palette.warn())
    } else if state.filter.is_empty() {
        Line::styled(
            "?: help  1-5: lists  /: filter  enter: inspect  p: pause, resume  c: cancel  r: retry  q: quit",
            palette.faint(),
        )
    } else {
        Line::styled(format!("filter: {}  (esc: all)", plain(&state.filter)), palette.warn())
    };
    frame.render_widget(Paragraph::new(line), area);
}
