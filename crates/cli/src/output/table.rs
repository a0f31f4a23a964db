//! Tables in the style of psql, which fit a terminal and are complete in a pipe.
//!
//! Where a terminal is too narrow, long columns are cut first. Then the optional columns are left out, the last one first,
//! and the line below the table names them. Then each row becomes a block with a line for each column, as with psql's
//! `\x auto`. A pipe gets every column, and of a long text the first 200 characters.
//!
//! comfy-table would pad and cut the cells. It does not choose the columns to leave out, switch to blocks or follow
//! --color, and with the code for these this module would be longer.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use uniqueue::PlaceName;

use super::paint::{Style, paint};
use super::record::{Cell, Record};
use super::text::{width, wrap};

/// The narrowest that a long column is cut to, and one that says why.
const MIN_WIDTH: usize = 8;
const MIN_WHY_WIDTH: usize = 24;

/// The widest that a long column is, also in a pipe. Every line of a table is as wide as its widest cell, and args may take
/// megabytes.
const MAX_WIDTH: usize = 200;

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    kind: ColumnKind,
    is_optional: bool,
    /// The narrowest that it is cut to.
    min_width: usize,
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

    /// Text of any length, such as args or an error. It is cut to fit a terminal, and at 200 columns in a pipe.
    pub(crate) fn long(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Long)
    }

    /// Text of any length that the list is read for: a reason, an error. It is never left out, and stays readable.
    pub(crate) fn why(name: impl Into<String>) -> Self {
        Self { min_width: MIN_WHY_WIDTH, ..Self::long(name) }
    }

    /// Leaves the column out where the terminal has no room for it.
    #[must_use]
    pub(crate) fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        Self { name: name.into(), kind, is_optional: false, min_width: MIN_WIDTH }
    }
}

/// Columns and rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A list: a row for each item, whose columns are added together with their cells.
#[derive(Debug)]
pub(crate) struct List<'a, T, C = Column> {
    items: &'a [T],
    columns: Vec<C>,
    rows: Vec<Vec<Cell>>,
}

impl<'a, T, C> List<'a, T, C> {
    pub(crate) fn of(items: &'a [T]) -> Self {
        Self { items, columns: Vec::new(), rows: vec![Vec::new(); items.len()] }
    }

    /// Adds a column, with the cell of each item.
    pub(crate) fn column<V: Into<Cell>>(self, column: C, cell: impl Fn(&'a T) -> V) -> Self {
        self.column_if(true, column, cell)
    }

    /// Adds a column that only some lists have.
    pub(crate) fn column_if<V: Into<Cell>>(mut self, is_there: bool, column: C, cell: impl Fn(&'a T) -> V) -> Self {
        if is_there {
            self.columns.push(column);
            self.rows.iter_mut().zip(self.items).for_each(|(row, item)| row.push(cell(item).into()));
        }
        self
    }

    /// The columns, and each item with its cells.
    pub(crate) fn parts(self) -> (Vec<C>, impl Iterator<Item = (&'a T, Vec<Cell>)>) {
        (self.columns, self.items.iter().zip(self.rows))
    }
}

impl<T> List<'_, T> {
    pub(crate) fn table(self) -> Table {
        Table { columns: self.columns, rows: self.rows }
    }
}

impl Table {
    /// The table for standard output, with the number of rows below it.
    pub(crate) fn text(&self) -> String {
        format!("{}\n", self.draw(width()))
    }

    /// One table of those of several places, with a column that names the place. Places may show other columns, such as the
    /// last error only where there is one.
    pub(crate) fn of_places(places: impl IntoIterator<Item = (PlaceName, Self)>) -> Self {
        let mut whole = Self { columns: vec![Column::text("place")], rows: Vec::new() };
        for (place, table) in places {
            let mut at = Vec::new();
            for column in table.columns {
                let known = whole.columns.iter().position(|known| known.name == column.name);
                at.push(known.unwrap_or(whole.columns.len()));
                if known.is_none() {
                    whole.columns.push(column);
                }
            }
            for row in table.rows {
                let mut cells = vec![Cell::new(""); whole.columns.len()];
                cells[0] = Cell::new(&place);
                at.iter().zip(row).for_each(|(at, cell)| cells[*at] = cell);
                whole.rows.push(cells);
            }
        }
        let count = whole.columns.len();
        whole.rows.iter_mut().for_each(|row| row.resize_with(count, || Cell::new("")));
        whole
    }

    /// Keeps these rows, in this order.
    pub(crate) fn keep(&mut self, rows: &[usize]) {
        self.rows = rows.iter().filter_map(|at| self.rows.get_mut(*at).map(std::mem::take)).collect();
    }

    /// The table for standard output without the number of rows, for a table that always has the same rows.
    pub(crate) fn text_without_count(&self) -> String {
        let drawn = self.draw(width());
        drawn.rsplit_once('\n').map(|(table, _)| table.to_owned()).unwrap_or(drawn)
    }

    /// The table within a width, with the number of rows below it and without a final line end.
    pub(crate) fn draw(&self, width: Option<usize>) -> String {
        let count = match self.rows.len() {
            1 => "(1 row)".to_owned(),
            count => format!("({count} rows)"),
        };
        let mut left_out = Vec::new();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            if let Some(widths) = self.widths(&shown, width) {
                let note = match left_out.as_slice() {
                    [] => count,
                    names => format!("{count} no room for: {}", names.join(", ")),
                };
                let note = wrap(&note, width).into_iter().map(|line| paint(Style::Faint, line.trim_end()).into_owned());
                return self.lines(&shown, &widths).chain(note).collect::<Vec<_>>().join("\n");
            }
            let Some(at) = shown.iter().rposition(|column| self.columns[*column].is_optional) else { break };
            left_out.insert(0, self.columns[shown.remove(at)].name.as_str());
        }
        let count = paint(Style::Faint, &count).into_owned();
        self.blocks().chain([count]).collect::<Vec<_>>().join("\n")
    }

    /// The widths of these columns within the limit. `None` if they do not fit.
    fn widths(&self, shown: &[usize], limit: Option<usize>) -> Option<Vec<usize>> {
        let natural = |column: &usize| {
            let cells = self.rows.iter().map(|row| row[*column].text.width());
            let widest = cells.chain([self.columns[*column].name.width()]).max().unwrap_or_default();
            if self.columns[*column].kind == ColumnKind::Long { widest.min(MAX_WIDTH) } else { widest }
        };
        let mut widths: Vec<usize> = shown.iter().map(natural).collect();
        let Some(limit) = limit else { return Some(widths) };
        // Each cell has a blank on each side, and a bar stands between two cells.
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + (3 * widths.len()).saturating_sub(1);
        while total(&widths) > limit {
            let min = |at: usize| self.columns[shown[at]].min_width;
            let is_long = |at: &usize| self.columns[shown[*at]].kind == ColumnKind::Long && widths[*at] > min(*at);
            let widest = (0..widths.len()).filter(is_long).max_by_key(|at| widths[*at])?;
            // The widest column shrinks until the table fits, or until another long column is wider.
            let surplus = total(&widths) - limit;
            let second =
                (0..widths.len()).filter(|at| *at != widest && is_long(at)).map(|at| widths[at]).max().unwrap_or(0);
            let down_to = widths[widest].saturating_sub(surplus).max(second.min(widths[widest] - 1)).max(min(widest));
            widths[widest] = down_to;
        }
        Some(widths)
    }

    fn lines<'t>(&'t self, shown: &'t [usize], widths: &'t [usize]) -> impl Iterator<Item = String> + 't {
        let header = self.columns.iter().map(|column| Cell::new(&column.name).style(Style::Strong)).collect::<Vec<_>>();
        let rule = widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("+");
        let line = move |cells: &[Cell]| {
            let cells = shown.iter().zip(widths).map(|(at, width)| {
                let (cell, column) = (&cells[*at], &self.columns[*at]);
                let text = cut(&cell.text, *width);
                let space = " ".repeat(width.saturating_sub(text.width()));
                let text = paint(cell.style, &text);
                match column.kind {
                    ColumnKind::Number => format!(" {space}{text} "),
                    ColumnKind::Text | ColumnKind::Long => format!(" {text}{space} "),
                }
            });
            cells.collect::<Vec<_>>().join("|").trim_end().to_owned()
        };
        let head = [line(&header), rule];
        head.into_iter().chain(self.rows.iter().map(move |row| line(row)))
    }

    fn blocks(&self) -> impl Iterator<Item = String> {
        self.rows.iter().enumerate().map(|(at, row)| {
            let mut record = Record::new();
            for (column, cell) in self.columns.iter().zip(row) {
                let cell = match column.kind {
                    ColumnKind::Long => Cell { text: cut(&cell.text, MAX_WIDTH), style: cell.style },
                    ColumnKind::Text | ColumnKind::Number => cell.clone(),
                };
                record.field(&column.name, cell);
            }
            format!("{}\n{}", paint(Style::Faint, &format!("-[ {} ]-", at + 1)), record.draw())
        })
    }
}

/// Cuts a text that is too wide, and marks the end with an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut taken) = (String::new(), 0);
    for character in text.chars() {
        taken += character.width().unwrap_or_default();
        if taken + 1 > width {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Table {
        pub(in crate::output) fn new(columns: impl IntoIterator<Item = Column>) -> Self {
            Self { columns: columns.into_iter().collect(), rows: Vec::new() }
        }

        /// Adds a row. Missing cells are empty, and surplus cells are ignored.
        pub(in crate::output) fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
            let mut cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
            cells.resize_with(self.columns.len(), || Cell::new(""));
            self.rows.push(cells);
        }
    }

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
    fn a_pipe_gets_the_beginning_of_a_huge_text() {
        let mut table = Table::new([Column::text("id"), Column::long("args")]);
        table.row(["0190", &"x".repeat(5_000_000)]);
        let drawn = table.draw(None);
        assert!(drawn.len() < 1_000 && drawn.contains(&format!("{}…", "x".repeat(199))), "{}", drawn.len());
        // A block for each row as well.
        assert!(table.draw(Some(1)).len() < 1_000);
    }

    #[test]
    fn a_terminal_cuts_long_columns_and_no_others() {
        let expected = " id   | args       | attempt\n\
                        ------+------------+---------\n \
                        0190 | {\"user\": … |       1\n \
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
        // The note is wrapped as well.
        let narrow = " id   | queue    | state\n------+----------+---------\n 0190 | a-long-… | running\n(1 row) no room for: args";
        assert_eq!(table.draw(Some(27)), narrow);
        let narrower = " id   | state\n------+---------\n 0190 | running\n(1 row) no room\nfor: queue, args";
        assert_eq!(table.draw(Some(17)), narrower);
        assert!(table.draw(Some(15)).starts_with("-[ 1 ]-\nid    | 0190\nqueue | a-long-name\n"));
    }

    #[test]
    fn the_column_that_says_why_stays_and_is_readable() {
        let mut table = Table::new([Column::text("id"), Column::text("state").optional(), Column::why("why")]);
        table.row(["0190", "retryable", "the queue is paused by ada: the provider is down"]);
        let narrow = " id   | why\n------+---------------------------\n 0190 | the queue is paused by a…\n(1 row) no room for: state";
        assert_eq!(table.draw(Some(34)), narrow);
        assert!(table.draw(Some(31)).starts_with("-[ 1 ]-\n"));
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
