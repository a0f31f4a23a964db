//! Drawing: the state as a frame.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::lists::{draw_list, sparkline};
use super::overlay;
use super::palette::Palette;
use super::snapshot::Snapshot;
use super::state::{Pane, Retry, State};
use crate::output::{count, format_duration, printable, wrap};

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, now: Instant, palette: Palette) {
    let queues = state.shown(Pane::Queues).len().max(1);
    // The list of queues is as high as it needs. It has two fifths of the screen, and what the list below leaves free.
    let height_for_lists = frame.area().height.saturating_sub(5);
    let below = u16::try_from(state.shown(state.lower_pane).len().max(1) + 3).unwrap_or(u16::MAX);
    let most = (height_for_lists * 2 / 5).max(height_for_lists.saturating_sub(below));
    let wanted = u16::try_from(queues + 3).unwrap_or(u16::MAX).clamp(4, most.max(4));
    let problem = lines(state.problem.as_deref().unwrap_or_default(), palette.bad(), frame.area());
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
    let empty = Snapshot::default();
    let snapshot = state.snapshot().unwrap_or(&empty);
    draw_list(frame, top, state, snapshot, Pane::Queues, palette);
    draw_list(frame, bottom, state, snapshot, state.lower_pane, palette);
    frame.render_widget(Paragraph::new(foot_lines), foot);
    overlay::draw(frame, state, palette);
}

/// Draws the schema, the runners and the age of the numbers.
fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State, now: Instant, palette: Palette) {
    let mut spans = vec![Span::styled(format!("uniqueue top  {}  ", state.title), palette.strong())];
    match &state.latest {
        Some((snapshot, arrived_at)) => {
            let runners =
                if snapshot.runners == 1 { "1 runner".to_owned() } else { format!("{} runners", snapshot.runners) };
            let style = if snapshot.runners == 0 { palette.bad() } else { Style::new() };
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
                true => spans.push(Span::styled(format!("{fresh}, {} old  ", format_duration(age)), palette.warn())),
                false => spans.push(Span::styled(format!("{fresh}  "), palette.faint())),
            }
        }
        None => spans.push(Span::styled("loading…  ", palette.faint())),
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn draw_rates(frame: &mut Frame<'_>, area: Rect, state: &State, palette: Palette) {
    let snapshot = state.snapshot();
    let columns: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3]).spacing(2).areas(area);
    let rates = [
        ("inserted", snapshot.map(|latest| latest.inserted), &state.history.inserted, Style::new()),
        ("completed", snapshot.map(|latest| latest.completed), &state.history.completed, palette.good()),
        ("failed", snapshot.map(|latest| latest.failed), &state.history.failed, palette.bad()),
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
fn lines(message: &str, style: Style, area: Rect) -> Vec<Line<'static>> {
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
        lines(&format!("retrying kind {kind}: {} so far{notice}", count(*retried)), palette.warn(), area)
    } else if let Some(notice) = state.notice.as_ref().filter(|notice| !notice.is_empty()) {
        lines(notice, palette.warn(), area)
    } else if state.filter.is_empty() {
        // It fits 80 columns.
        vec![Line::styled(
            "? help  1-6 lists  / filter  enter open  p pause  c cancel  r retry  q quit",
            palette.faint(),
        )]
    } else {
        lines(&format!("filter: {}  (esc: all)", state.filter), palette.warn(), area)
    }
}
