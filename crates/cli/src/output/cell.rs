//! A cell of a table, or the value of a field.

use std::borrow::Cow;

use super::paint::{Style, paint};
use super::printable::printable;

/// The text of one cell. Control characters are escaped.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(super) text: String,
    pub(crate) style: Style,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: printable(text.as_ref()).into_owned(), style: Style::Plain }
    }

    #[must_use]
    pub(crate) fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn painted(&self) -> Cow<'_, str> {
        paint(self.style, &self.text)
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}
