//! What lies over the lists: help, the filter, a question, a job in full.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

use super::draw::Palette;
use super::state::{Over, State};
use crate::output::plain;

const HELP: [&str; 13] = [
    "1 to 5, tab, arrows   another list: queues, running jobs, failing kinds, keys, waiting inserts",
    "up, down, j, k        another row; page up, page down, home, end",
    "/                     show only what contains a text, in every list; esc shows all",
    "enter, i              the job of the row in full",
    "p                     pause the chosen queue, or resume it",
    "c                     cancel the chosen running job, or the job that holds the chosen key",
    "r                     retry the discarded and retryable jobs of the chosen kind",
    "q, ctrl-c             quit",
    "",
    "What changes something asks first. depth: available jobs, look by look. 10000+: counted no further.",
    "Rates: inserted is counted among the newest jobs; runners tell completed and failed, four times a lease.",
    "keys lists the first hundred that are held. waiting inserts: another transaction has inserted the same key",
    "and is open still, or is changing the job that holds it; ending it lets them go on.",
];

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, palette: Palette) {
    let area = frame.area();
    match &state.over {
        Over::Nothing => {}
        Over::Help => {
            let lines = HELP.iter().map(|line| Line::from(*line)).collect();
            popup(frame, area, " help: any key puts it away ", lines, palette);
        }
        Over::Filter => {
            let text = format!("{}▏", plain(&state.filter));
            popup(frame, area, " filter: enter keeps it, esc shows all ", vec![Line::from(text)], palette);
        }
        Over::Confirm(action) => {
            let question = action.question().unwrap_or_default();
            let lines = vec![
                Line::from(plain(&question).into_owned()),
                Line::from(""),
                Line::from("y: yes   any other key: no"),
            ];
            popup(frame, area, " really? ", lines, palette);
        }
        Over::Text { title, lines, scroll } => {
            let lines = lines.iter().skip(*scroll).map(|line| Line::from(plain(line).into_owned())).collect();
            popup(frame, area, &format!(" {title}: arrows scroll, any other key puts it away "), lines, palette);
        }
    }
}

/// A box in the middle, as large as its text.
fn popup(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'_>>, palette: Palette) {
    let text_width = lines.iter().map(Line::width).max().unwrap_or(0).max(Line::from(title).width());
    let width = u16::try_from(text_width + 4).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let over = area.centered(Constraint::Length(width), Constraint::Length(height));
    let block = Block::bordered().border_style(palette.strong()).title(title.to_owned());
    frame.render_widget(Clear, over);
    frame.render_widget(Paragraph::new(lines).block(block), over);
}
