//! One object in full: a line for each of its fields.

use unicode_width::UnicodeWidthStr;

use super::cell::Cell;
use super::paint::{Style, paint};

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
