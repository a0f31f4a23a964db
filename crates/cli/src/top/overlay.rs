//! The windows over the lists: help, the filter, a question, a job in full.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

use super::palette::Palette;
use super::state::{Overlay, State};
use crate::output::{Style, printable, wrap};

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

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, palette: Palette) {
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
