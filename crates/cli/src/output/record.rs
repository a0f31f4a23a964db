//! A cell of a table or of a record, and one object in full: a line for each of its fields.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use super::paint::{Style, paint};
use super::text::printable;

/// The text of one cell. Control characters are escaped.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) text: String,
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

    pub(super) fn painted(&self) -> Cow<'_, str> {
        paint(self.style, &self.text)
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// The fields of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    fields: Vec<(String, Cell)>,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a field.
    pub(crate) fn field(&mut self, name: impl Into<String>, value: impl Into<Cell>) {
        self.fields.push((name.into(), value.into()));
    }

    /// Adds a field that has a value, and skips one that has none.
    pub(crate) fn optional_field(&mut self, name: impl Into<String>, value: Option<impl Into<Cell>>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }

    /// The lines, without a final line end.
    pub(crate) fn draw(&self) -> String {
        let widest = self.fields.iter().map(|(name, _)| name.width()).max().unwrap_or_default();
        let line = |(name, value): &(String, Cell)| {
            let space = " ".repeat(widest - name.width());
            let line = format!("{}{space} | {}", paint(Style::Strong, name), value.painted());
            line.trim_end().to_owned()
        };
        self.fields.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
