//! The styles of the screen.

use ratatui::style::{Color, Modifier, Style};

use crate::output;

/// The styles of the screen. Without colours only bold, dim and reversed text is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    pub(super) has_colors: bool,
}

impl Palette {
    pub(super) fn of(self, style: output::Style) -> Style {
        let color = |color| if self.has_colors { Style::new().fg(color) } else { Style::new() };
        match style {
            output::Style::Plain => Style::new(),
            output::Style::Strong => Style::new().add_modifier(Modifier::BOLD),
            output::Style::Faint => Style::new().add_modifier(Modifier::DIM),
            output::Style::Good => color(Color::Green),
            output::Style::Warn => color(Color::Yellow),
            output::Style::Bad => color(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}
