//! Tables in the style of psql, which fit a terminal and are complete in a pipe.
//!
//! comfy-table draws them and cuts long columns. Three rules of our own apply where a terminal is still too narrow. First
//! the optional columns are left out, the last one first, and the line below the table names them. Then each row becomes
//! a block with a line for each column, as with psql's `\x auto`. A pipe gets every column in full.

use comfy_table::{
    Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, TableStyle,
    Width,
};

use super::paint::{Style, has_colors, paint};
use super::printable::printable;
use super::record::Record;
use super::terminal_width::width;

/// The narrowest that a long column is cut to, without its padding.
const MIN_WIDTH: u16 = 8;

/// The blanks beside a cell: one on each side.
const PADDING: u16 = 2;

const PSQL: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction('|'))
    .header_separator(LineStyle::none().fill('-').junction('+'))
    .content_lines(ContentLineStyle::none().junction('|'));

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    kind: ColumnKind,
    is_optional: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ColumnKind {
    Text,
    Number,
    Long,
}

impl Column {
    /// Text that is never cut, such as an id.
    pub(crate) fn text(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Text)
    }

    /// A number or an age, aligned to the right and never cut.
    pub(crate) fn number(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Number)
    }

    /// Text of any length, such as args or an error. It is cut to fit a terminal.
    pub(crate) fn long(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Long)
    }

    /// Leaves the column out where the terminal has no room for it.
    #[must_use]
    pub(crate) fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        Self { name: name.into(), kind, is_optional: false }
    }
}

/// The text of one cell. Control characters are escaped.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
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

    pub(super) fn painted(&self) -> std::borrow::Cow<'_, str> {
        paint(self.style, &self.text)
    }

    fn drawn(&self) -> comfy_table::Cell {
        let cell = comfy_table::Cell::new(&self.text);
        match self.style {
            Style::Plain => cell,
            Style::Strong => cell.add_attribute(Attribute::Bold),
            Style::Faint => cell.add_attribute(Attribute::Dim),
            // The dark colours are the first eight of the terminal's own sixteen.
            Style::Good => cell.fg(Color::DarkGreen),
            Style::Warn => cell.fg(Color::DarkYellow),
            Style::Bad => cell.fg(Color::DarkRed),
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// Columns and rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells are empty, and surplus cells are ignored.
    pub(crate) fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        cells.resize_with(self.columns.len(), || Cell::new(""));
        self.rows.push(cells);
    }

    /// The table for standard output, with the number of rows below it.
    pub(crate) fn text(&self) -> String {
        format!("{}\n", self.draw(width()))
    }

    /// The table for standard output without the number of rows, for a table that always has the same rows.
    pub(crate) fn text_without_count(&self) -> String {
        self.fit(width()).0
    }

    /// The table within a width, with the number of rows below it and without a final line end.
    pub(crate) fn draw(&self, width: Option<usize>) -> String {
        let (table, left_out) = self.fit(width);
        let mut note = match self.rows.len() {
            1 => "(1 row)".to_owned(),
            count => format!("({count} rows)"),
        };
        if !left_out.is_empty() {
            note = format!("{note} no room for: {}", left_out.join(", "));
        }
        format!("{table}\n{}", paint(Style::Faint, &note)).trim_start_matches('\n').to_owned()
    }

    /// The table within a width, and the columns that it leaves out.
    fn fit(&self, width: Option<usize>) -> (String, Vec<&str>) {
        let mut left_out: Vec<usize> = Vec::new();
        loop {
            let lines: Vec<String> = self.arranged(&left_out, width).lines().map(|l| l.trim_end().to_owned()).collect();
            // The rule below the header is as wide as the table and has no colour codes.
            let drawn = lines.get(1).map_or(0, |rule| rule.chars().count());
            if width.is_none_or(|width| drawn <= width) {
                return (lines.join("\n"), left_out.iter().rev().map(|at| self.columns[*at].name.as_str()).collect());
            }
            let is_removable = |at: &usize| self.columns[*at].is_optional && !left_out.contains(at);
            match (0..self.columns.len()).rev().find(is_removable) {
                Some(column) => left_out.push(column),
                None => return (self.blocks(), Vec::new()),
            }
        }
    }

    fn arranged(&self, left_out: &[usize], width: Option<usize>) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(PSQL).style_text_only();
        if has_colors() {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        let names = self.columns.iter().map(|column| Cell::new(&column.name).style(Style::Strong).drawn());
        table.set_header(names.collect::<Vec<_>>());
        for cells in &self.rows {
            let mut row = comfy_table::Row::from(cells.iter().take(self.columns.len()).map(Cell::drawn));
            if width.is_some() {
                row.max_height(1);
            }
            table.add_row(row);
        }
        match width {
            Some(width) => {
                let width = u16::try_from(width).unwrap_or(u16::MAX);
                table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width)
            }
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        let natural = table.column_max_content_widths();
        for (at, (column, drawn)) in self.columns.iter().zip(table.column_iter_mut()).enumerate() {
            drawn.set_constraint(match column.kind {
                _ if left_out.contains(&at) => ColumnConstraint::Hidden,
                ColumnKind::Long => ColumnConstraint::LowerBoundary(Width::Fixed(natural[at].min(MIN_WIDTH) + PADDING)),
                ColumnKind::Text | ColumnKind::Number => ColumnConstraint::ContentWidth,
            });
            if column.kind == ColumnKind::Number {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn blocks(&self) -> String {
        let blocks = self.rows.iter().enumerate().map(|(at, row)| {
            let mut record = Record::new();
            for (column, cell) in self.columns.iter().zip(row) {
                record.field(&column.name, cell.clone());
            }
            format!("{}\n{}", paint(Style::Faint, &format!("-[ {} ]-", at + 1)), record.draw())
        });
        blocks.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn jobs() -> Table {
        let mut table = Table::new([Column::text("id"), Column::long("args"), Column::number("attempt")]);
        table.row(["0190", r#"{"user": 1, "locale": "en"}"#, "1"]);
        table.row(["0191", "{}", "25"]);
        table
    }

    #[test]
    fn a_pipe_gets_everything() {
        let expected = " id   | args                        | attempt\n\
                        ------+-----------------------------+---------\n \
                        0190 | {\"user\": 1, \"locale\": \"en\"} |       1\n \
                        0191 | {}                          |      25\n\
                        (2 rows)";
        assert_eq!(jobs().draw(None), expected);
    }

    #[test]
    fn a_terminal_cuts_long_columns_and_no_others() {
        let expected = " id   | args       | attempt\n\
                        ------+------------+---------\n \
                        0190 | {\"user\":…  |       1\n \
                        0191 | {}         |      25\n\
                        (2 rows)";
        assert_eq!(jobs().draw(Some(29)), expected);
        for width in 27..60 {
            let widest = jobs().draw(Some(width)).lines().map(UnicodeWidthStr::width).max().unwrap();
            assert!(widest <= width, "{widest} in {width}");
        }
    }

    #[test]
    fn optional_columns_are_left_out_before_rows_become_blocks() {
        let mut table = Table::new([
            Column::text("id"),
            Column::long("queue").optional(),
            Column::text("state"),
            Column::long("args").optional(),
        ]);
        table.row(["0190", "a-long-name", "running", "{}"]);
        assert_eq!(table.draw(None).lines().next(), Some(" id   | queue       | state   | args"));
        let narrow = " id   | queue    | state\n------+----------+---------\n 0190 | a-long-… | running\n(1 row) no room for: args";
        assert_eq!(table.draw(Some(27)), narrow);
        let narrower = " id   | state\n------+---------\n 0190 | running\n(1 row) no room for: queue, args";
        assert_eq!(table.draw(Some(17)), narrower);
        assert!(table.draw(Some(15)).starts_with("-[ 1 ]-\nid    | 0190\nqueue | a-long-name\n"));
    }

    #[test]
    fn a_narrow_terminal_gets_a_block_for_each_row() {
        let expected = "-[ 1 ]-\nid      | 0190\nargs    | {\"user\": 1, \"locale\": \"en\"}\nattempt | 1\n\
                        -[ 2 ]-\nid      | 0191\nargs    | {}\nattempt | 25\n(2 rows)";
        assert_eq!(jobs().draw(Some(20)), expected);
        // Even the narrowest terminal gets everything.
        assert_eq!(jobs().draw(Some(1)), expected);
    }

    #[test]
    fn wide_characters_are_two_columns_and_controls_are_escaped() {
        let mut table = Table::new([Column::long("name"), Column::number("jobs")]);
        table.row(["漢字漢字漢字", "1"]);
        table.row(["a\u{1b}[2J", "2"]);
        let expected = " name     | jobs\n----------+------\n 漢字漢…  |    1\n a\\u{1b}… |    2\n(2 rows)";
        assert_eq!(table.draw(Some(17)), expected);
    }

    #[test]
    fn an_empty_table_is_a_header() {
        assert_eq!(Table::new([Column::text("queue")]).draw(Some(80)), " queue\n-------\n(0 rows)");
    }
}
