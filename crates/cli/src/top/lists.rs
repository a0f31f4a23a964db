//! The lists of the screen.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};

use super::draw::Palette;
use super::snapshot::Snapshot;
use super::state::{Pane, State};
use crate::output::{format_duration, printable};
use crate::queue::Status;

/// Draws a list.
pub(super) fn draw_list(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &State,
    snapshot: &Snapshot,
    pane: Pane,
    palette: Palette,
) {
    let shown = state.shown(pane);
    let (header, widths, rows) = match pane {
        Pane::Queues => queues(snapshot, &shown, state, palette),
        Pane::Running => running(snapshot, &shown, palette),
        Pane::Failing => failing(snapshot, &shown, palette),
        Pane::Keys => keys(snapshot, &shown),
        Pane::Waiting => waiting(snapshot, &shown, palette),
    };
    let is_selected = state.pane == pane;
    let border = if is_selected { palette.strong() } else { palette.faint() };
    let block = Block::bordered().border_style(border).title(title(state, pane, shown.len(), palette));
    if rows.is_empty() && state.snapshot().is_some() {
        let nothing = if state.filter.is_empty() { empty(pane) } else { "nothing matches the filter" };
        frame.render_widget(Paragraph::new(Line::styled(nothing, palette.faint())).block(block), area);
        return;
    }
    let highlight = if is_selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    let table = Table::new(rows, widths)
        .header(Row::new(header.iter().map(|name| Cell::from(*name))).style(palette.faint()))
        .block(block)
        .row_highlight_style(highlight);
    let mut table_state = TableState::new().with_selected(Some(state.selected(pane)));
    frame.render_stateful_widget(table, area, &mut table_state);
}

/// The titles of the lists that share this place, with their keys.
fn title(state: &State, pane: Pane, count: usize, palette: Palette) -> Line<'static> {
    let panes: &[Pane] = if pane == Pane::Queues { &[Pane::Queues] } else { &Pane::ALL[1..] };
    let mut spans = vec![Span::raw(" ")];
    for title in panes {
        let key = Pane::ALL.iter().position(|known| known == title).map_or(0, |index| index + 1);
        let count = if *title == pane { count } else { state.shown(*title).len() };
        let is_urgent = *title == Pane::Waiting && count > 0;
        let style = match (*title == pane, is_urgent) {
            (_, true) => palette.bad(),
            (true, _) => palette.strong(),
            _ => palette.faint(),
        };
        spans.push(Span::styled(format!("{key} {} {count}", title.title()), style));
        spans.push(Span::raw("  "));
    }
    spans.pop();
    spans.push(Span::raw(" "));
    Line::from(spans)
}

const fn empty(pane: Pane) -> &'static str {
    match pane {
        Pane::Queues => "there is no queue yet: no job was inserted, and no runner is alive",
        Pane::Running => "no job is running",
        Pane::Failing => "no kind is failing",
        Pane::Keys => "no key is held",
        Pane::Waiting => "no insert waits for another transaction",
    }
}

type Listed = (&'static [&'static str], Vec<Constraint>, Vec<Row<'static>>);

fn text(text: &str) -> Cell<'static> {
    Cell::from(printable(text).into_owned())
}

fn number(text: impl ToString) -> Cell<'static> {
    Cell::from(Line::from(text.to_string()).right_aligned())
}

fn queues(snapshot: &Snapshot, shown: &[usize], state: &State, palette: Palette) -> Listed {
    use Constraint::{Fill, Length};
    let row = |index: &usize| {
        let queue = &snapshot.queues[*index];
        let status = match (queue.status, queue.limit) {
            (Status::Paused, _) => Span::styled(queue.status.as_str(), palette.warn()),
            (Status::NoRunner, _) => Span::styled(queue.status.as_str(), palette.bad()),
            (_, Some(limit)) => Span::raw(format!("limit {limit}")),
            _ => Span::raw(""),
        };
        let depths = state.history.depths.get(&queue.name).map(|depths| sparkline(depths, 20)).unwrap_or_default();
        let oldest = queue.oldest.map(format_duration).unwrap_or_default();
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
    let row = |index: &usize| {
        let job = &snapshot.running[*index];
        let runner = match job.is_alive {
            true => text(&job.runner),
            false => Cell::from(Span::styled(format!("dead: {}", printable(&job.runner)), palette.bad())),
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
    let row = |index: &usize| {
        let failing = &snapshot.failing[*index];
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
    let row = |index: &usize| {
        let key = &snapshot.keys[*index];
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
    let row = |index: &usize| {
        let waiting = &snapshot.waiting[*index];
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
