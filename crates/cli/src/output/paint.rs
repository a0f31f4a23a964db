//! Colour: only where somebody looks, or asks for it.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use clap::ValueEnum;

/// When to colour.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    /// In a pipe and a file as well
    Always,
    /// Nowhere
    Never,
}

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Says once, before anything is printed, when to colour.
pub(crate) fn choose_color(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// What a text is to a reader who is in a hurry. The colours are the terminal's own sixteen, so that they fit its theme.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Style {
    /// As it is.
    #[default]
    Plain,
    /// What one looks for: a title, a header.
    Strong,
    /// Beside the point.
    Faint,
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// Not as it should be.
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

/// The text for standard output, in colour where that is wanted.
pub(crate) fn paint(style: Style, text: &str) -> Cow<'_, str> {
    style.apply(text, is_wanted(io::stdout().is_terminal()))
}

/// The same for standard error.
pub(crate) fn paint_error(style: Style, text: &str) -> Cow<'_, str> {
    style.apply(text, is_wanted(io::stderr().is_terminal()))
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
