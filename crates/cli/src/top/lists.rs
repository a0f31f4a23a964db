//! The lists of the screen.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};

use super::palette::Palette;
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
    let (columns, rows) = match pane {
        Pane::Queues => queues(snapshot, &shown, state, palette),
        Pane::Running => running(snapshot, &shown, palette),
        Pane::Failing => failing(snapshot, &shown, palette),
        Pane::Keys => keys(snapshot, &shown),
        Pane::Waiting => waiting(snapshot, &shown, palette),
        Pane::Groups => groups(snapshot, &shown, palette),
    };
    let is_selected = state.pane == pane;
    let border = if is_selected { palette.strong() } else { palette.faint() };
    let block = Block::bordered().border_style(border).title(title(state, pane, shown.len(), palette));
    if rows.is_empty() && state.snapshot().is_some() {
        let nothing = if state.filter.is_empty() { empty(pane) } else { "nothing matches the filter" };
        frame.render_widget(Paragraph::new(Line::styled(nothing, palette.faint())).block(block), area);
        return;
    }
    let inner = block.inner(area);
    let fitting = fitting(&columns, inner.width);
    // One row is the header's.
    let below = rows.len().saturating_sub(usize::from(inner.height.saturating_sub(1)).max(1));
    let block = match below {
        0 => block,
        more => block.title_bottom(Line::styled(format!(" … {more} more "), palette.faint()).right_aligned()),
    };
    let widths: Vec<_> = fitting.iter().map(|at| columns[*at].width).collect();
    let shares = Layout::horizontal(&widths).spacing(1).split(inner);
    let header = Row::new(fitting.iter().map(|at| Cell::from(columns[*at].name))).style(palette.faint());
    let rows = rows.into_iter().map(|cells| {
        let cells = cells.into_iter().enumerate().filter(|(at, _)| fitting.contains(at));
        Row::new(cells.zip(shares.iter()).map(|((_, cell), share)| Cell::from(cut(cell, usize::from(share.width)))))
    });
    let highlight = if is_selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    let table = Table::new(rows, widths).header(header).block(block).row_highlight_style(highlight);
    let mut table_state = TableState::new().with_selected(Some(state.selected(pane)));
    frame.render_stateful_widget(table, area, &mut table_state);
}

/// A line that fits a width. An ellipsis ends what is cut.
fn cut(mut line: Line<'static>, width: usize) -> Line<'static> {
    if line.width() <= width || width == 0 {
        return line;
    }
    let mut room = width - 1;
    for span in &mut line.spans {
        let kept: String = span
            .content
            .chars()
            .take_while(|letter| {
                let wide = Span::raw(letter.to_string()).width();
                let fits = wide <= room;
                room = if fits { room - wide } else { 0 };
                fits
            })
            .collect();
        span.content = kept.into();
    }
    line.spans.push(Span::raw("…"));
    line
}

/// A column of a list.
struct Column {
    name: &'static str,
    width: Constraint,
    /// The least width that the column is shown with.
    least: u16,
    /// Where there is no room, the columns with the highest rank are left out. Those of rank 0 always stay.
    rank: u8,
}

/// A column of a fixed width.
const fn fixed(name: &'static str, width: u16, rank: u8) -> Column {
    Column { name, width: Constraint::Length(width), least: width, rank }
}

/// A column that takes a share of the rest of the width.
const fn fill(name: &'static str, share: u16, least: u16, rank: u8) -> Column {
    Column { name, width: Constraint::Fill(share), least, rank }
}

/// The columns that are shown in this width.
fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    // One blank stands between two columns.
    while shown.iter().map(|at| columns[*at].least + 1).sum::<u16>() > width + 1 {
        let last = (0..shown.len()).filter(|at| columns[shown[*at]].rank > 0).max_by_key(|at| columns[shown[*at]].rank);
        match last {
            Some(last) => shown.remove(last),
            None => break,
        };
    }
    shown
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
        Pane::Groups => "no group is held up",
    }
}

type Listed = (Vec<Column>, Vec<Vec<Line<'static>>>);

fn text(text: &str) -> Line<'static> {
    Line::from(printable(text).into_owned())
}

fn number(text: impl ToString) -> Line<'static> {
    Line::from(text.to_string()).right_aligned()
}

fn queues(snapshot: &Snapshot, shown: &[usize], state: &State, palette: Palette) -> Listed {
    // Most queues have no groups, and the room is scarce.
    let has_held_groups = snapshot.queues.iter().any(|queue| !queue.held_groups.is_empty());
    let row = |index: &usize| {
        let queue = &snapshot.queues[*index];
        let status = match (queue.status, queue.limit) {
            (Status::Paused | Status::Held, _) => Span::styled(queue.status.as_str(), palette.warn()),
            (Status::NoRunner, _) => Span::styled(queue.status.as_str(), palette.bad()),
            (_, Some(limit)) => Span::raw(format!("limit {limit}")),
            _ => Span::raw(""),
        };
        let depths = state.history.depths.get(&queue.name).map(|depths| sparkline(depths, 20)).unwrap_or_default();
        let oldest = queue.oldest.map(format_duration).unwrap_or_default();
        let mut cells = vec![text(&queue.name), Line::from(status)];
        if has_held_groups {
            cells.push(Line::from(Span::styled(queue.held_groups.clone(), palette.warn())));
        }
        cells.extend([
            number(&queue.available),
            number(oldest),
            number(&queue.running),
            number(&queue.scheduled),
            number(&queue.retryable),
            number(&queue.discarded),
            number(queue.runners),
            Line::from(depths),
        ]);
        cells
    };
    // With the groups that are held up, `discarded` still fits into 80 columns.
    let mut columns = vec![fill("queue", 2, if has_held_groups { 11 } else { 16 }, 0), fixed("", 9, 0)];
    if has_held_groups {
        columns.push(fixed("held up", 7, 0));
    }
    columns.extend([
        fixed("available", 9, 0),
        fixed("   oldest", 9, 0),
        fixed(" running", 8, 0),
        fixed("scheduled", 9, 3),
        fixed("retryable", 9, 0),
        fixed("discarded", 9, 1),
        fixed("runners", 7, 2),
        fill("depth", 1, 8, 4),
    ]);
    (columns, shown.iter().map(row).collect())
}

fn running(snapshot: &Snapshot, shown: &[usize], palette: Palette) -> Listed {
    let row = |index: &usize| {
        let job = &snapshot.running[*index];
        let runner = match job.is_alive {
            true => text(&job.runner),
            false => Line::from(Span::styled(format!("dead: {}", printable(&job.runner)), palette.bad())),
        };
        vec![
            text(&job.id),
            text(&job.kind),
            text(&job.queue),
            number(&job.running_for),
            number(&job.attempt),
            runner,
            text(&job.progress),
        ]
    };
    (
        vec![
            fixed("job", 36, 2),
            fill("kind", 2, 14, 0),
            fill("queue", 1, 10, 0),
            fixed("      for", 9, 0),
            fixed("attempt", 7, 0),
            fill("runner", 1, 12, 0),
            fill("progress", 1, 10, 1),
        ],
        shown.iter().map(row).collect(),
    )
}

fn failing(snapshot: &Snapshot, shown: &[usize], palette: Palette) -> Listed {
    let row = |index: &usize| {
        let failing = &snapshot.failing[*index];
        let discarded = Span::styled(failing.discarded.to_string(), palette.bad());
        vec![
            text(&failing.kind),
            text(&failing.queues),
            number(failing.retryable),
            Line::from(discarded).right_aligned(),
            number(&failing.last),
            text(&failing.error),
        ]
    };
    (
        vec![
            fill("kind", 2, 14, 0),
            fill("queues", 1, 10, 1),
            fixed("retryable", 9, 0),
            fixed("discarded", 9, 0),
            fixed("       last", 11, 0),
            fill("error", 4, 20, 0),
        ],
        shown.iter().map(row).collect(),
    )
}

fn keys(snapshot: &Snapshot, shown: &[usize]) -> Listed {
    let row = |index: &usize| {
        let key = &snapshot.keys[*index];
        vec![text(&key.key), text(&key.kind), text(&key.state), number(&key.age), text(&key.holder), text(&key.frees)]
    };
    (
        vec![
            fill("key", 2, 16, 0),
            fill("kind", 1, 12, 0),
            fixed("holder is", 9, 0),
            fixed("      age", 9, 0),
            fixed("job", 36, 1),
            fill("free", 2, 20, 0),
        ],
        shown.iter().map(row).collect(),
    )
}

fn waiting(snapshot: &Snapshot, shown: &[usize], palette: Palette) -> Listed {
    let row = |index: &usize| {
        let waiting = &snapshot.waiting[*index];
        vec![
            number(waiting.pid),
            text(&waiting.application),
            number(&waiting.waiting_for),
            text(&waiting.waits_for),
            Line::from(Span::styled(printable(&waiting.blocker).into_owned(), palette.bad())),
            number(&waiting.open_for),
            text(&waiting.query),
        ]
    };
    (
        vec![
            fixed("    pid", 7, 0),
            fixed("application", 12, 0),
            fixed("  waiting", 9, 0),
            fixed("for", 16, 0),
            fill("of session", 3, 20, 0),
            fixed("    open", 8, 0),
            fill("its last statement", 2, 20, 1),
        ],
        shown.iter().map(row).collect(),
    )
}

fn groups(snapshot: &Snapshot, shown: &[usize], palette: Palette) -> Listed {
    let row = |index: &usize| {
        let group = &snapshot.groups[*index];
        vec![
            text(&group.group),
            text(&group.queue),
            number(&group.running),
            number(group.waiting),
            number(&group.oldest),
            Line::from(Span::styled(printable(&group.held_by).into_owned(), palette.warn())),
            text(&group.until),
        ]
    };
    (
        vec![
            fill("group", 2, 14, 0),
            fill("queue", 1, 10, 0),
            fixed("running", 7, 1),
            fixed("waiting", 7, 0),
            fixed("   oldest", 9, 0),
            fill("held up by", 2, 20, 0),
            fixed("until", 10, 2),
        ],
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
