//! Colour: on a terminal, or where --color asks for it.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use clap::ColorChoice;

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Sets when to colour. Call it once, before anything is printed.
pub(crate) fn choose_color(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// The importance of a text. The colours are the terminal's own sixteen, so that they fit its theme.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Style {
    /// No style.
    #[default]
    Plain,
    /// A title or a header.
    Strong,
    /// A detail.
    Faint,
    /// Something in order.
    Good,
    /// Something to check.
    Warn,
    /// Something wrong.
    Bad,
}

impl Style {
    fn code(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Strong => Some("1"),
            Style::Faint => Some("2"),
            Style::Good => Some("32"),
            Style::Warn => Some("33"),
            Style::Bad => Some("31"),
        }
    }

    fn apply<'t>(self, text: &'t str, is_wanted: bool) -> Cow<'t, str> {
        match self.code().filter(|_| is_wanted && !text.is_empty()) {
            Some(code) => Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m")),
            None => Cow::Borrowed(text),
        }
    }
}

/// Styles a text for standard output, where colour is on.
pub(crate) fn paint(style: Style, text: &str) -> Cow<'_, str> {
    style.apply(text, is_wanted(io::stdout().is_terminal()))
}

/// Styles a text for standard error, where colour is on.
pub(crate) fn paint_error(style: Style, text: &str) -> Cow<'_, str> {
    style.apply(text, is_wanted(io::stderr().is_terminal()))
}

/// Whether colour is on for standard output.
pub(crate) fn has_colors() -> bool {
    is_wanted(io::stdout().is_terminal())
}

fn is_wanted(is_terminal: bool) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match CHOICE.get().copied().unwrap_or_default() {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        // no-color.org: any value but an empty one.
        ColorChoice::Auto => is_terminal && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb"),
    }
}
