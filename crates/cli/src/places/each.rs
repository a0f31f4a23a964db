//! Running a command in one place of a map, or in all at once.
//!
//! Each place gets a process of this command, so that a command knows nothing of places. With all places their outputs are
//! merged: objects and rows get the place's name. A page of jobs has the first jobs of all places, in order.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::{Map, Value, json};
use uniqueue::{PlaceAddress, PlaceMap};

use crate::failure::Failure;
use crate::output::{self, TABLES_AS_JSON, Table};
use crate::verdict::Verdict;

/// The commands that ask all places in this way. They change nothing.
const READING: [&str; 9] = [
    "doctor",
    "job list",
    "job show",
    "kind list",
    "periodic list",
    "queue groups",
    "queue list",
    "queue status",
    "unique audit",
];

/// A page of a list in the order of ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageOfIds {
    /// The most rows.
    pub(crate) limit: u32,
    pub(crate) is_oldest_first: bool,
}

/// Reads the map that the command line names: a file, or the JSON document itself.
pub(crate) fn map(given: Option<&str>) -> Result<PlaceMap, Failure> {
    let given = given.filter(|given| !given.trim().is_empty());
    let missing = || Failure::refused("no map of places given", "give --places FILE or set UNIQUEUE_PLACES");
    Ok(PlaceMap::from_json_or_file(given.ok_or_else(missing)?)?)
}

/// Runs the command line in the place of this name. It takes over this process, so that signals reach it.
///
/// # Errors
///
/// It returns only if the command line is refused or cannot run.
pub(crate) fn in_place(map: &PlaceMap, name: &str) -> Result<Verdict, Failure> {
    let error = command(map.place(name)?, &own_arguments())?.exec();
    Err(Failure::environment("cannot run in a place", "try again", error))
}

/// Runs the command line in all places at once and merges the outputs. `name` is the name of its command.
pub(crate) fn in_all(map: &PlaceMap, name: &str, page: Option<PageOfIds>) -> Result<Verdict, Failure> {
    let arguments = own_arguments();
    // A script of --remedies is for one database.
    let is_for_one = |argument: &OsString| argument == "--watch" || argument == "--remedies";
    if !READING.contains(&name) || arguments.iter().any(is_for_one) {
        return Err(Failure::refused(
            "this command works in one place at a time",
            "name it with --place; the commands that ask all places are doctor, stats, serve and the lists",
        ));
    }
    let places: Vec<_> = map.places().collect();
    let commands = places.iter().map(|place| command(place, &arguments)).collect::<Result<Vec<_>, _>>()?;
    // A thread reads each output: a full pipe would hold up its place until the places before it have ended.
    let outputs: Vec<_> = std::thread::scope(|scope| {
        let run = |mut command: Command| scope.spawn(move || command.env(TABLES_AS_JSON, "1").output());
        let running: Vec<_> = commands.into_iter().map(run).collect();
        running.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()))).collect()
    });
    let mut merged = Merged::default();
    let mut worst = Verdict::Fine;
    for (place, output) in places.iter().zip(outputs) {
        let output = output.map_err(|error| Failure::environment("cannot run in a place", "try again", error))?;
        let place = place.name().as_str();
        worst = worst.or_worse(Verdict::of_code(output.status.code()));
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            output::print_to_stderr(&format!("place {place}: {line}"));
        }
        merged.add(place, &String::from_utf8_lossy(&output.stdout));
    }
    output::print(&merged.text(page)?)?;
    Ok(worst)
}

/// This command in a place.
fn command(place: &PlaceAddress, arguments: &[OsString]) -> Result<Command, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::environment("cannot find this command's own file", "reinstall it", error))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("DATABASE_URL", place.url())
        .env("UNIQUEUE_SCHEMA", place.schema_name().as_str())
        .env_remove("UNIQUEUE_PLACES");
    Ok(command)
}

fn own_arguments() -> Vec<OsString> {
    without_places(std::env::args_os().skip(1))
}

/// A command line without the options that are about places.
fn without_places(mut given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut own = Vec::new();
    while let Some(argument) = given.next() {
        match argument.to_str() {
            // The arguments after it are those of the program.
            Some("--") => {
                own.push(argument);
                own.extend(given);
                break;
            }
            Some("--places" | "--place") => drop(given.next()),
            Some(text) if text.starts_with("--places=") || text.starts_with("--place=") => {}
            _ => own.push(argument),
        }
    }
    own
}

/// The outputs of all places.
#[derive(Default)]
struct Merged {
    objects: Vec<Value>,
    /// The columns, and the rows with the place in front.
    columns: Vec<Value>,
    rows: Vec<Vec<String>>,
    /// Text that is no table, under the name of its place.
    text: String,
}

impl Merged {
    fn add(&mut self, place: &str, output: &str) {
        if let Ok(objects) = serde_json::Deserializer::from_str(output).into_iter().collect::<Result<Vec<Value>, _>>()
            && objects.iter().all(|object| object.is_object() && object.get("table").is_none())
        {
            self.objects.extend(objects.into_iter().map(|object| named(place, object)));
            return;
        }
        let mut text = String::new();
        for line in output.lines() {
            match serde_json::from_str::<Value>(line).ok().filter(|value| value.get("table").is_some()) {
                Some(value) => self.add_table(place, &value["table"]),
                None => text.push_str(&format!("{line}\n")),
            }
        }
        if !text.trim().is_empty() {
            self.text.push_str(&format!("place {place}\n{}\n\n", text.trim_end()));
        }
    }

    fn add_table(&mut self, place: &str, table: &Value) {
        let columns = table["columns"].as_array().cloned().unwrap_or_default();
        // Places may show other columns, such as the last error only where there is one.
        let at: Vec<usize> = columns
            .iter()
            .map(|column| {
                let known = self.columns.iter().position(|known| known["name"] == column["name"]);
                known.unwrap_or_else(|| {
                    self.columns.push(column.clone());
                    self.columns.len() - 1
                })
            })
            .collect();
        for row in table["rows"].as_array().into_iter().flatten() {
            let mut cells = vec![place.to_owned()];
            for (cell, at) in row.as_array().into_iter().flatten().zip(&at) {
                cells.resize(cells.len().max(at + 2), String::new());
                cells[at + 1] = cell.as_str().unwrap_or_default().to_owned();
            }
            self.rows.push(cells);
        }
    }

    fn text(mut self, page: Option<PageOfIds>) -> Result<String, Failure> {
        let mut last = None;
        if let Some(page) = page {
            page.cut(&mut self.objects, |object| object["id"].as_str().unwrap_or_default().to_owned());
            last = page.cut(&mut self.rows, |row| row.get(1).cloned().unwrap_or_default());
        }
        let mut text = output::json_lines(&self.objects)?;
        if !self.columns.is_empty() {
            let place = json!({"name": "place", "kind": "text", "optional": false});
            let columns: Vec<_> = [place].into_iter().chain(self.columns).collect();
            text.push_str(&Table::of_json(&columns, self.rows).text());
        }
        text.extend(last.map(|last| output::next_page(&last)));
        if !self.text.is_empty() {
            text.push_str(&format!("{}\n", self.text.trim_end()));
        }
        Ok(text)
    }
}

impl PageOfIds {
    /// Makes one page of the pages of all places. Each place gave its first rows, so the first ones of all are among them.
    /// Answers with the last id of a full page.
    fn cut<T>(self, items: &mut Vec<T>, id: impl Fn(&T) -> String) -> Option<String> {
        items.sort_by_cached_key(&id);
        if !self.is_oldest_first {
            items.reverse();
        }
        items.truncate(self.limit as usize);
        items.last().filter(|_| items.len() == self.limit as usize).map(&id)
    }
}

fn named(place: &str, object: Value) -> Value {
    let mut named = Map::from_iter([("place".to_owned(), json!(place))]);
    if let Value::Object(members) = object {
        named.extend(members);
    }
    Value::Object(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_about_places_do_not_reach_a_place() {
        let given = ["job", "--places", "f", "list", "--place=a", "--limit", "3", "--places=x"].map(OsString::from);
        assert_eq!(without_places(given.into_iter()), ["job", "list", "--limit", "3"]);
        let given = ["work", "--place", "a", "--", "./job", "--place", "berlin"].map(OsString::from);
        assert_eq!(without_places(given.into_iter()), ["work", "--", "./job", "--place", "berlin"]);
    }

    #[test]
    fn a_page_of_all_places_has_their_first_rows_in_order() {
        let page = |is_oldest_first, places: [&str; 2]| {
            let mut merged = Merged::default();
            for (place, ids) in ["a", "b"].into_iter().zip(places) {
                let lines: String = ids.chars().map(|id| format!("{{\"id\":\"{id}\"}}\n")).collect();
                merged.add(place, &lines);
            }
            let text = merged.text(Some(PageOfIds { limit: 3, is_oldest_first })).unwrap();
            let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
            text.lines().map(id).collect::<String>()
        };
        assert_eq!(page(false, ["952", "841"]), "985");
        assert_eq!(page(true, ["259", "148"]), "124");
        assert_eq!(page(false, ["9", "8"]), "98");
        let mut full: Vec<u8> = (0..9).collect();
        let last = PageOfIds { limit: 3, is_oldest_first: true }.cut(&mut full, ToString::to_string);
        assert_eq!((full, last.as_deref()), (vec![0, 1, 2], Some("2")));
    }

    #[test]
    fn a_column_of_one_place_is_empty_in_the_others() {
        let table = |columns: Value, row: Value| json!({"table": {"columns": columns, "rows": [row]}}).to_string();
        let column = |name: &str| json!({"name": name, "kind": "text", "optional": false});
        let mut merged = Merged::default();
        merged.add("a", &table(json!([column("queue"), column("args")]), json!(["q", "{}"])));
        merged
            .add("b", &format!("{}\nnext page", table(json!([column("queue"), column("error")]), json!(["r", "no"]))));
        let text = merged.text(None).unwrap();
        assert_eq!(
            text,
            " place | queue | args | error\n-------+-------+------+-------\n a     | q     | {}   |\n b     | r     |      | no\n(2 rows)\nplace b\nnext page\n"
        );
    }
}
