//! Drawing: the state as a frame.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState};

use super::lists::{Column, List, Pane, sparkline};
use super::state::{Overlay, Retry, State};
use crate::output::{Cell, Style, count, cut, format_duration, printable, wrap};

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, now: Instant, palette: Palette) {
    let queues = state.shown(Pane::Queues).len().max(1);
    // The list of queues is as high as it needs. It has two fifths of the screen, and what the list below leaves free.
    let height_for_lists = frame.area().height.saturating_sub(5);
    let below = u16::try_from(state.shown(state.lower_pane).len().max(1) + 3).unwrap_or(u16::MAX);
    let most = (height_for_lists * 2 / 5).max(height_for_lists.saturating_sub(below));
    let wanted = u16::try_from(queues + 3).unwrap_or(u16::MAX).clamp(4, most.max(4));
    let problem = lines(state.problem.as_deref().unwrap_or_default(), palette.of(Style::Bad), frame.area());
    let foot_lines = foot(state, frame.area(), palette);
    let [head, below_head, rates, top, bottom, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(height(&problem)),
        Constraint::Length(2),
        Constraint::Length(wanted),
        Constraint::Min(4),
        Constraint::Length(height(&foot_lines)),
    ])
    .areas(frame.area());
    draw_head(frame, head, state, now, palette);
    frame.render_widget(Paragraph::new(problem), below_head);
    draw_rates(frame, rates, state, palette);
    draw_list(frame, top, state, Pane::Queues, palette);
    draw_list(frame, bottom, state, state.lower_pane, palette);
    frame.render_widget(Paragraph::new(foot_lines), foot);
    draw_overlay(frame, state, palette);
}

/// Draws the schema, the runners and the age of the numbers.
fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State, now: Instant, palette: Palette) {
    let mut spans = vec![Span::styled(format!("uniqueue top  {}  ", state.title), palette.of(Style::Strong))];
    match &state.latest {
        Some((snapshot, arrived_at)) => {
            let runners =
                if snapshot.runners == 1 { "1 runner".to_owned() } else { format!("{} runners", snapshot.runners) };
            let style = if snapshot.runners == 0 { palette.of(Style::Bad) } else { palette.of(Style::Plain) };
            spans.push(Span::styled(format!("{runners}  "), style));
            let age = now.saturating_duration_since(*arrived_at);
            // A snapshot is late when two more are missing.
            let is_stale = age > state.interval * 3 + Duration::from_millis(500);
            let mut fresh = format!("{}  every {}", snapshot.clock, format_duration(state.interval));
            if snapshot.took > state.interval {
                // The interval is waited for after each snapshot.
                fresh = format!("{fresh}, a query takes {}", format_duration(snapshot.took));
            }
            match is_stale {
                true => spans
                    .push(Span::styled(format!("{fresh}, {} old  ", format_duration(age)), palette.of(Style::Warn))),
                false => spans.push(Span::styled(format!("{fresh}  "), palette.of(Style::Faint))),
            }
        }
        None => spans.push(Span::styled("loading…  ", palette.of(Style::Faint))),
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// Draws a list.
fn draw_list(frame: &mut Frame<'_>, area: Rect, state: &State, pane: Pane, palette: Palette) {
    let shown = state.shown(pane);
    let is_selected = state.pane == pane;
    let border = if is_selected { Style::Strong } else { Style::Faint };
    let block = Block::bordered().border_style(palette.of(border)).title(title(state, pane, shown.len(), palette));
    let empty = List::default();
    let list = state.list(pane).unwrap_or(&empty);
    if shown.is_empty() && state.latest.is_some() {
        let nothing = if state.filter.is_empty() { pane.words().1 } else { "nothing matches the filter" };
        let nothing = Line::styled(nothing, palette.of(Style::Faint));
        frame.render_widget(Paragraph::new(nothing).block(block), area);
        return;
    }
    let inner = block.inner(area);
    let fitting = fitting(&list.columns, inner.width);
    // One row is the header's.
    let below = shown.len().saturating_sub(usize::from(inner.height.saturating_sub(1)).max(1));
    let more = Line::styled(format!(" … {below} more "), palette.of(Style::Faint)).right_aligned();
    let block = if below == 0 { block } else { block.title_bottom(more) };
    let widths: Vec<_> = fitting.iter().map(|at| list.columns[*at].width).collect();
    let shares = Layout::horizontal(&widths).spacing(1).split(inner);
    let line = |text: &str, style, column: &Column, width: u16| {
        let line = Line::from(Span::styled(cut(text, usize::from(width)), palette.of(style)));
        if column.is_number { line.right_aligned() } else { line }
    };
    let columns: Vec<_> = fitting.iter().zip(shares.iter()).map(|(at, share)| (*at, share.width)).collect();
    let header =
        columns.iter().map(|(at, width)| line(list.columns[*at].name, Style::Plain, &list.columns[*at], *width));
    let rows = shown.iter().map(|row| {
        let cell = |(at, width): &(usize, u16)| {
            let cell: &Cell = &list.rows[*row].cells[*at];
            line(&cell.text, cell.style, &list.columns[*at], *width)
        };
        Row::new(columns.iter().map(cell))
    });
    let highlight = if is_selected { Modifier::REVERSED } else { Modifier::empty() };
    let table = Table::new(rows, widths).header(Row::new(header).style(palette.of(Style::Faint))).block(block);
    let table = table.row_highlight_style(palette.of(Style::Plain).add_modifier(highlight));
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(Some(state.selected(pane))));
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
        let count = if *title == pane { count } else { state.shown(*title).len() };
        let style = match *title {
            Pane::Waiting if count > 0 => Style::Bad,
            title if title == pane => Style::Strong,
            _ => Style::Faint,
        };
        spans.push(Span::styled(format!("{} {} {count}", *title as usize + 1, title.words().0), palette.of(style)));
        spans.push(Span::raw("  "));
    }
    spans.pop();
    spans.push(Span::raw(" "));
    Line::from(spans)
}

fn draw_rates(frame: &mut Frame<'_>, area: Rect, state: &State, palette: Palette) {
    let snapshot = state.snapshot();
    let columns: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3]).spacing(2).areas(area);
    let rates = [
        ("inserted", snapshot.map(|latest| latest.inserted), &state.history.inserted, palette.of(Style::Plain)),
        ("completed", snapshot.map(|latest| latest.completed), &state.history.completed, palette.of(Style::Good)),
        ("failed", snapshot.map(|latest| latest.failed), &state.history.failed, palette.of(Style::Bad)),
    ];
    for (area, (name, rate, history, style)) in columns.into_iter().zip(rates) {
        let rate = rate.map_or_else(String::new, |rate| format!(" {rate:.1}/s"));
        let lines =
            vec![Line::from(format!("{name}{rate}")), Line::styled(sparkline(history, usize::from(area.width)), style)];
        frame.render_widget(Paragraph::new(lines), area);
    }
}

/// The most lines of a message at the head or the foot.
const MESSAGE_LINES: usize = 3;

/// The lines of a message that fit the width, without control characters. An empty message has no line.
fn lines(message: &str, style: ratatui::style::Style, area: Rect) -> Vec<Line<'static>> {
    if message.is_empty() {
        return Vec::new();
    }
    let message = printable(message);
    let lines = wrap(&message, Some(usize::from(area.width)));
    lines.into_iter().take(MESSAGE_LINES).map(|line| Line::styled(line.to_owned(), style)).collect()
}

fn height(lines: &[Line<'_>]) -> u16 {
    u16::try_from(lines.len()).unwrap_or(u16::MAX)
}

/// The progress of a retry, a notice, the filter, or the keys.
fn foot(state: &State, area: Rect, palette: Palette) -> Vec<Line<'static>> {
    if let Some(Retry { kind, retried }) = &state.retry {
        let notice = state.notice.as_ref().map(|notice| format!("; {notice}")).unwrap_or_default();
        lines(&format!("retrying kind {kind}: {} so far{notice}", count(*retried)), palette.of(Style::Warn), area)
    } else if let Some(notice) = state.notice.as_ref().filter(|notice| !notice.is_empty()) {
        lines(notice, palette.of(Style::Warn), area)
    } else if state.filter.is_empty() {
        // It fits 80 columns.
        vec![Line::styled(
            "? help  1-6 lists  / filter  enter open  p pause  c cancel  r retry  q quit",
            palette.of(Style::Faint),
        )]
    } else {
        lines(&format!("filter: {}  (esc: all)", state.filter), palette.of(Style::Warn), area)
    }
}

/// It fits a terminal of 80 columns and 24 rows.
const HELP: [&str; 22] = [
    "1 to 6, tab, arrows   another list: queues, running jobs, failing kinds,",
    "                      keys, waiting inserts, groups that are held up",
    "up, down, j, k        another row; page up, page down, home, end",
    "/                     filter every list by a text; esc shows all",
    "enter, i              the job of the row in full, or the jobs of the queue",
    "p                     pause the selected queue, or resume it",
    "c                     cancel the selected running job, or the job that",
    "                      holds the selected key",
    "r                     retry the discarded and retryable jobs of the",
    "                      selected kind",
    "q, ctrl-c             quit",
    "",
    "Changes ask for confirmation. A wider terminal shows more columns.",
    "Queues in trouble come first. depth: the available jobs over time. ~537 k is",
    "an estimate, > 10 k a lower bound. …: more does not fit.",
    "Rates: inserted is counted among the newest jobs. Runners report completed",
    "and failed, four times a lease.",
    "waiting inserts: another transaction inserted the same key and is still",
    "open, or changes the job that holds it. The insert goes on when that",
    "transaction ends.",
    "groups: their first job waits for other jobs, a limit, a rate or a hold. enter",
    "shows that job.",
];

pub(super) fn draw_overlay(frame: &mut Frame<'_>, state: &State, palette: Palette) {
    let area = frame.area();
    match &state.overlay {
        Overlay::None => {}
        Overlay::Help => {
            let lines = HELP.iter().map(|line| Line::from(*line)).collect();
            popup(frame, area, " help: any key closes it ", lines, palette);
        }
        Overlay::Filter => {
            let text = format!("{}▏", printable(&state.filter));
            popup(frame, area, " filter: enter keeps it, esc shows all ", vec![Line::from(text)], palette);
        }
        Overlay::Confirm(action) => {
            let question = action.question().unwrap_or_default();
            let mut lines = wrapped(&question, area);
            lines.extend([Line::from(""), Line::from("y: yes   any other key: no")]);
            popup(frame, area, " confirm ", lines, palette);
        }
        Overlay::Text { title, lines, scroll } => {
            let lines = lines.iter().skip(*scroll).flat_map(|line| wrapped(line, area)).collect();
            popup(frame, area, &format!(" {title}: arrows scroll, any other key closes it "), lines, palette);
        }
    }
}

/// A text in lines that fit into a box, without control characters.
fn wrapped(text: &str, area: Rect) -> Vec<Line<'static>> {
    let text = printable(text);
    wrap(&text, Some(usize::from(area.width.saturating_sub(4))))
        .into_iter()
        .map(|line| Line::from(line.to_owned()))
        .collect()
}

/// Draws a box in the middle, as large as its text.
fn popup(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'_>>, palette: Palette) {
    let text_width = lines.iter().map(Line::width).max().unwrap_or(0).max(Line::from(title).width());
    let width = u16::try_from(text_width + 4).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let window = area.centered(Constraint::Length(width), Constraint::Length(height));
    let block = Block::bordered().border_style(palette.of(Style::Strong)).title(title.to_owned());
    frame.render_widget(Clear, window);
    frame.render_widget(Paragraph::new(lines).block(block), window);
}

/// The styles of the screen. Without colours only bold, dim and reversed text is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    pub(super) has_colors: bool,
}

impl Palette {
    pub(super) fn of(self, style: Style) -> ratatui::style::Style {
        let plain = ratatui::style::Style::new();
        let color = |color| if self.has_colors { plain.fg(color) } else { plain };
        match style {
            Style::Plain => plain,
            Style::Strong => plain.add_modifier(Modifier::BOLD),
            Style::Faint => plain.add_modifier(Modifier::DIM),
            Style::Good => color(Color::Green),
            Style::Warn => color(Color::Yellow),
            Style::Bad => color(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}
