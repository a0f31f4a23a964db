//! What a command answers: one object, a list or sentences, as text or as JSON, from one database or from several places.

use serde::Serialize;
use uniqueue::PlaceName;

use super::table::Table;
use super::{json_lines, next_page, no_json, print, print_to_stderr, wrapped};
use crate::exit::{Failure, Verdict};

/// The form of an answer that the command line asks for.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) json: bool,
    /// The place that answers. `None`: one database is asked.
    pub(crate) place: Option<PlaceName>,
}

/// The answer of a command.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    body: Body,
    page: Option<Page>,
    /// Sentences for standard error, printed last.
    notes: Vec<String>,
    verdict: Verdict,
}

/// The part of an answer that is for standard output.
#[derive(Debug)]
pub(crate) enum Body {
    /// JSON objects with their line ends. Those of a list have a line each.
    Objects(Vec<String>),
    Tables(Vec<Table>),
    Text(String),
}

/// The rows of a list that goes on.
#[derive(Debug)]
pub(crate) struct Page {
    /// The most rows.
    pub(crate) limit: u32,
    pub(crate) is_oldest_first: bool,
    /// The id of each row, as text of which a later one is greater.
    pub(crate) ids: Vec<String>,
}

/// An object of a place.
#[derive(Serialize)]
struct Placed<'a, T> {
    place: &'a PlaceName,
    #[serde(flatten)]
    object: &'a T,
}

impl Form {
    /// The form of a command that asks no place.
    pub(crate) fn of_one(json: bool) -> Self {
        Self { json, place: None }
    }

    /// Values, as JSON one a line, or as a table.
    pub(crate) fn list<T: Serialize>(
        &self,
        values: &[T],
        table: impl FnOnce(&[T]) -> Table,
    ) -> Result<Answer, Failure> {
        if self.json { self.lines(values) } else { Ok(Answer::of(table(values))) }
    }

    /// Values as JSON, one a line.
    pub(crate) fn lines<T: Serialize>(&self, values: impl IntoIterator<Item = T>) -> Result<Answer, Failure> {
        let lines = values.into_iter().map(|value| self.line(&value)).collect::<Result<_, _>>()?;
        Ok(Answer::of(Body::Objects(lines)))
    }

    /// One value, as a JSON object or as text. Over several places the object takes a line.
    pub(crate) fn object<T: Serialize, B: Into<Body>>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> B,
    ) -> Result<Answer, Failure> {
        Ok(match (self.json, &self.place) {
            (false, _) => Answer::of(text(value)),
            (true, Some(_)) => Answer::of(Body::Objects(vec![self.line(value)?])),
            (true, None) => {
                let pretty = serde_json::to_string_pretty(value).map_err(no_json)?;
                Answer::of(Body::Objects(vec![format!("{pretty}\n")]))
            }
        })
    }

    /// One value, as a JSON object or as sentences. On a terminal their lines end after words.
    pub(crate) fn message(&self, value: &impl Serialize, text: impl Into<String>) -> Result<Answer, Failure> {
        self.object(value, |_| wrapped(&text.into()))
    }

    /// One of several values, as JSON on a line of its own or as sentences.
    pub(crate) fn part(&self, value: &impl Serialize, text: &str) -> Result<Answer, Failure> {
        Ok(Answer::of(if self.json { Body::Objects(vec![self.line(value)?]) } else { Body::Text(wrapped(text)) }))
    }

    fn line<T: Serialize>(&self, object: &T) -> Result<String, Failure> {
        match &self.place {
            Some(place) => json_lines([Placed { place, object }]),
            None => json_lines([object]),
        }
    }
}

impl Answer {
    pub(crate) fn of(body: impl Into<Body>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// The answer where a name does not exist, or exists already.
    pub(crate) fn not_fine(note: String) -> Self {
        Self::from(Verdict::NotFine).notes(vec![note])
    }

    #[must_use]
    pub(crate) fn verdict(self, verdict: Verdict) -> Self {
        Self { verdict, ..self }
    }

    #[must_use]
    pub(crate) fn page(self, page: Page) -> Self {
        Self { page: Some(page), ..self }
    }

    #[must_use]
    pub(crate) fn notes(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }

    /// Adds the objects, the sentences, the notes and the verdict of another answer.
    pub(crate) fn add(&mut self, other: Self) {
        match (&mut self.body, other.body) {
            (Body::Text(text), Body::Text(more)) => text.push_str(&more),
            (Body::Objects(objects), Body::Objects(more)) => objects.extend(more),
            (body, more) => *body = more,
        }
        self.notes.extend(other.notes);
        self.verdict = self.verdict.max(other.verdict);
    }

    /// The answers of several places in one. Rows get a column with the place, and text its name as a title.
    pub(crate) fn of_places(answers: Vec<(PlaceName, Self)>) -> Self {
        let mut whole = Self::default();
        let (mut objects, mut tables, mut text) = (Vec::new(), Vec::<Vec<_>>::new(), String::new());
        for (place, answer) in answers {
            match answer.body {
                Body::Objects(own) => objects.extend(own),
                Body::Text(own) if own.trim().is_empty() => {}
                Body::Text(own) => text.push_str(&format!("place {place}\n{}\n\n", own.trim_end())),
                Body::Tables(own) => {
                    tables.resize_with(tables.len().max(own.len()), Vec::new);
                    tables.iter_mut().zip(own).for_each(|(tables, own)| tables.push((place.clone(), own)));
                }
            }
            whole.notes.extend(answer.notes.into_iter().map(|note| format!("place {place}: {note}")));
            whole.verdict = whole.verdict.max(answer.verdict);
            match (&mut whole.page, answer.page) {
                (Some(page), Some(own)) => page.ids.extend(own.ids),
                (page, own) => *page = page.take().or(own),
            }
        }
        let mut tables: Vec<_> = tables.into_iter().map(Table::of_places).collect();
        if let Some(page) = &mut whole.page {
            let first = page.first();
            page.ids = first.iter().map(|at| std::mem::take(&mut page.ids[*at])).collect();
            objects = first.iter().filter_map(|at| objects.get_mut(*at).map(std::mem::take)).collect();
            tables.iter_mut().for_each(|table| table.keep(&first));
        }
        whole.body = match (objects.is_empty(), tables.is_empty()) {
            (false, _) => Body::Objects(objects),
            (true, false) => Body::Tables(tables),
            (true, true) => Body::Text(if text.is_empty() { text } else { format!("{}\n", text.trim_end()) }),
        };
        whole
    }

    /// Prints the answer.
    pub(crate) fn print(self) -> Result<Verdict, Failure> {
        print(&match &self.body {
            Body::Objects(objects) => objects.concat(),
            Body::Text(text) => text.clone(),
            Body::Tables(tables) => {
                let text = tables.iter().map(Table::text).collect::<Vec<_>>().join("\n");
                let is_full = |page: &&Page| page.ids.len() == page.limit as usize;
                let last = self.page.as_ref().filter(is_full).and_then(|page| page.ids.last());
                format!("{text}{}", last.map(|last| next_page(last)).unwrap_or_default())
            }
        })?;
        self.notes.iter().for_each(|note| print_to_stderr(note));
        Ok(self.verdict)
    }
}

impl Page {
    /// Where the first rows of several pages are, in order. Each place gave its first rows, so those of all are among them.
    fn first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.ids.len()).collect();
        order.sort_by_key(|at| &self.ids[*at]);
        if !self.is_oldest_first {
            order.reverse();
        }
        order.truncate(self.limit as usize);
        order
    }
}

/// What a command has printed itself.
impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        Self::default().verdict(verdict)
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Table> for Body {
    fn from(table: Table) -> Self {
        Self::Tables(vec![table])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Column;

    fn places<const N: usize>(answers: [Answer; N]) -> Answer {
        let names = ["a", "b"].into_iter().map(|name| PlaceName::new(name).unwrap());
        Answer::of_places(names.zip(answers).collect())
    }

    #[test]
    fn a_page_of_all_places_has_their_first_rows_in_order() {
        let page = |is_oldest_first, ids: [&str; 2]| {
            let of = |ids: &str| {
                let ids: Vec<_> = ids.chars().map(String::from).collect();
                Answer::of(Body::Objects(ids.clone())).page(Page { limit: 3, is_oldest_first, ids })
            };
            let whole = places(ids.map(of));
            let Body::Objects(objects) = whole.body else { panic!("no objects") };
            assert_eq!(whole.page.unwrap().ids, objects);
            objects.concat()
        };
        assert_eq!(page(false, ["952", "841"]), "985");
        assert_eq!(page(true, ["259", "148"]), "124");
        assert_eq!(page(false, ["9", "8"]), "98");
    }

    #[test]
    fn a_column_of_one_place_is_empty_in_the_others() {
        let table = |columns: [&str; 2], row: [&str; 2]| {
            let mut table = Table::new(columns.map(Column::text));
            table.row(row);
            Answer::of(table)
        };
        let whole = places([table(["queue", "args"], ["q", "{}"]), table(["queue", "error"], ["r", "no"])]);
        let Body::Tables(tables) = whole.body else { panic!("no table") };
        assert_eq!(
            tables[0].draw(None),
            " place | queue | args | error\n-------+-------+------+-------\n a     | q     | {}   |\n b     | r     |      | no\n(2 rows)"
        );
    }

    #[test]
    fn text_and_notes_name_their_place() {
        let answer = |text: &str| Answer::of(text.to_owned()).notes(vec!["no queue".to_owned()]);
        let whole = places([answer("one\n"), answer("")]);
        assert!(matches!(&whole.body, Body::Text(text) if text == "place a\none\n"), "{whole:?}");
        assert_eq!(whole.notes, ["place a: no queue", "place b: no queue"]);
    }
}
