//! The styles of the screen.

use ratatui::style::{Color, Modifier, Style};

/// The styles of the screen. Without colours only bold, dim and reversed text is left.
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
