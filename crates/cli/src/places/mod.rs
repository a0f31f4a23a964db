//! `uniqueue places`: naming, checking and migrating the places of a map. [`each`] runs other commands in every place.

mod each;

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde::Serialize;
use uniqueue::{Client, JobState, PlaceName, Places, Result};

pub(crate) use self::each::{PageOfIds, in_all, in_place, map};

use crate::failure::Failure;
use crate::output::{self, Cell, Column, Style, Table, count};
use crate::verdict::Verdict;

/// Name, check and migrate the places of a map.
///
/// A place is a schema that is a whole queue. A map is a JSON file with the places of an application:
/// {"places": [{"name": "a", "url": "postgres://db-1/app"}, …], "hashed": ["a", …]}. --places names the file for every
/// command. A command then asks all places at once, and its lists get a column with the place. With --place it works in one
/// place.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlacesArguments {
    #[command(subcommand)]
    command: PlacesCommand,
}

const EXAMPLES: &str = "\
Examples:
  uniqueue places migrate --places places.json
  uniqueue places status --places places.json
  uniqueue job list --state discarded --places places.json
  uniqueue job retry --kind email.send --places places.json --place a

Exit codes:
  0    done
  1    something is wrong with a place
  2    a wrong command line or map
  130  interrupted by Ctrl-C or SIGTERM before the end";

#[derive(Debug, Subcommand)]
enum PlacesCommand {
    Init(InitArguments),
    Check(CheckArguments),
    Status(StatusArguments),
    Migrate(MigrateArguments),
}

macro_rules! arguments {
    ($(#[$doc:meta])* $name:ident, $examples:expr) => {
        $(#[$doc])*
        #[derive(Debug, Args)]
        #[command(after_help = $examples)]
        struct $name {
            /// Print JSON instead of text: one object a line
            #[arg(long)]
            json: bool,
        }
    };
}

arguments!(
    /// Write to each place its name and the list of hashed places.
    ///
    /// A place that has them is left alone. A schema that is another place already is refused.
    InitArguments,
    "\
Examples:
  uniqueue places init --places places.json

Exit codes:
  0    every place has its name
  1    a place does not answer, or is another place already
  2    a wrong command line or map"
);

arguments!(
    /// Check that each place answers, is the place of the map, and has the schema that this uniqueue needs.
    ///
    /// It also compares the first 10,000 unique keys of each hashed place: no key is claimed in two of them.
    CheckArguments,
    "\
Examples:
  uniqueue places check --places places.json

Exit codes:
  0    all places are well
  1    a place is not, or a key is claimed in two hashed places
  2    a wrong command line or map"
);

arguments!(
    /// Show the runners and the jobs of each place, and their sums.
    ///
    /// Counts above 10,000 a queue and state are marked with a +.
    StatusArguments,
    "\
Examples:
  uniqueue places status --places places.json

Exit codes:
  0    printed
  1    a place does not answer, or is another than the map says
  2    a wrong command line or map"
);

arguments!(
    /// Bring the schema of each place up to date, and give new places their names.
    MigrateArguments,
    "\
Examples:
  uniqueue places migrate --places places.json

Exit codes:
  0    every place is up to date and has its name
  1    a place does not answer, or cannot be migrated
  2    a wrong command line or map"
);

/// Runs a command about places.
pub(crate) async fn run(arguments: PlacesArguments, places: Option<&str>) -> Result<Verdict, Failure> {
    let places = Places::new(map(places)?);
    match arguments.command {
        PlacesCommand::Init(InitArguments { json }) => {
            report(json, &places, places.init().await, |()| "named".to_owned())
        }
        PlacesCommand::Check(CheckArguments { json }) => check(json, &places).await,
        PlacesCommand::Migrate(MigrateArguments { json }) => migrate(json, &places).await,
        PlacesCommand::Status(StatusArguments { json }) => status(json, &places).await,
    }
}

async fn check(json: bool, places: &Places) -> Result<Verdict, Failure> {
    let verdict = report(json, places, places.check().await, |()| "well".to_owned())?;
    let doubled = places.doubled_keys(Places::COMPARED_KEYS).await;
    for (key, places) in &doubled {
        let names = places.iter().map(PlaceName::as_str).collect::<Vec<_>>().join(", ");
        output::print_to_stderr(&format!("the unique key {key:?} is claimed in several hashed places: {names}"));
    }
    Ok(if doubled.is_empty() { verdict } else { Verdict::NotFine })
}

async fn migrate(json: bool, places: &Places) -> Result<Verdict, Failure> {
    let migrated = places.migrate().await;
    let named = places.init().await;
    let answers = migrated.into_iter().zip(named).map(|((place, migrated), (_, named))| {
        let both = migrated.and_then(|applied| named.map(|()| applied.len()));
        (place, both)
    });
    report(json, places, answers.collect(), |applied| match applied {
        0 => "up to date".to_owned(),
        1 => "1 migration applied".to_owned(),
        applied => format!("{applied} migrations applied"),
    })
}

/// One place, as JSON.
#[derive(Serialize)]
struct PlaceLine<'a> {
    place: &'a str,
    schema: &'a str,
    ok: bool,
    state: String,
}

/// Prints what came of each place.
fn report<T>(
    json: bool,
    places: &Places,
    answers: Vec<(PlaceName, Result<T>)>,
    words: impl Fn(T) -> String,
) -> Result<Verdict, Failure> {
    let schemas: BTreeMap<_, _> =
        places.iter().map(|(place, client)| (place.clone(), client.schema().clone())).collect();
    let lines: Vec<_> = answers
        .into_iter()
        .map(|(place, answer)| (place, answer.is_ok(), answer.map_or_else(|error| error.to_string(), &words)))
        .collect();
    let is_fine = lines.iter().all(|(_, ok, _)| *ok);
    if json {
        let lines = lines.into_iter().map(|(place, ok, state)| {
            let schema = schemas.get(&place).map(ToString::to_string).unwrap_or_default();
            serde_json::json!(PlaceLine { place: place.as_str(), schema: &schema, ok, state })
        });
        output::print(&output::json_lines(lines)?)?;
    } else {
        let mut table = Table::new([Column::text("place"), Column::text("schema").optional(), Column::long("state")]);
        for (place, ok, state) in lines {
            let schema = schemas.get(&place).map(ToString::to_string).unwrap_or_default();
            let style = if ok { Style::Plain } else { Style::Bad };
            table.row([Cell::new(&place), Cell::new(schema), Cell::new(state).style(style)]);
        }
        output::print(&table.text())?;
    }
    Ok(if is_fine { Verdict::Fine } else { Verdict::NotFine })
}

/// The states of the columns.
const STATES: [JobState; 4] = [JobState::Available, JobState::Running, JobState::Retryable, JobState::Discarded];

/// The numbers of one place, or their sums.
#[derive(Clone, Default)]
struct Numbers {
    runners: u64,
    jobs: [u64; 4],
    is_more: [bool; 4],
}

async fn status(json: bool, places: &Places) -> Result<Verdict, Failure> {
    let ask = |client: Client| async move {
        let stats = client.stats().sample(1).await?;
        let mut numbers = Numbers { runners: stats.runners, ..Numbers::default() };
        for (at, state) in STATES.iter().enumerate() {
            if let Some(jobs) = stats.jobs.get(state) {
                (numbers.jobs[at], numbers.is_more[at]) = (jobs.counted(), !jobs.is_exact());
            }
        }
        Ok(numbers)
    };
    let answers = places.ask(ask).await;
    let is_fine = answers.iter().all(|(_, answer)| answer.is_ok());
    if json {
        let lines = answers.iter().map(|(place, answer)| match answer {
            Ok(Numbers { runners, jobs, .. }) => {
                let jobs: BTreeMap<_, _> = STATES.iter().map(|state| state.as_str()).zip(jobs).collect();
                serde_json::json!({"place": place, "ok": true, "runners": runners, "jobs": jobs})
            }
            Err(error) => serde_json::json!({"place": place, "ok": false, "state": error.to_string()}),
        });
        output::print(&output::json_lines(lines)?)?;
    } else {
        output::print(&table(&answers).text_without_count())?;
        output::print("\n")?;
    }
    Ok(if is_fine { Verdict::Fine } else { Verdict::NotFine })
}

fn table(answers: &[(PlaceName, Result<Numbers>)]) -> Table {
    let states = STATES.iter().map(|state| Column::number(state.as_str()));
    let columns = [Column::text("place"), Column::number("runners")].into_iter().chain(states);
    let mut table = Table::new(columns.chain([Column::long("problem")]));
    let mut sums = Numbers::default();
    let mut row = |name: &str, numbers: &Numbers| {
        let number = |(jobs, is_more): (&u64, &bool)| format!("{}{}", count(*jobs), if *is_more { "+" } else { "" });
        let jobs = numbers.jobs.iter().zip(&numbers.is_more).map(number);
        table.row([name.to_owned(), count(numbers.runners)].into_iter().chain(jobs));
    };
    for (place, answer) in answers {
        if let Ok(numbers) = answer {
            row(place.as_str(), numbers);
            sums.runners += numbers.runners;
            for at in 0..STATES.len() {
                sums.jobs[at] += numbers.jobs[at];
                sums.is_more[at] |= numbers.is_more[at];
            }
        }
    }
    row("all", &sums);
    for (place, answer) in answers {
        if let Err(error) = answer {
            let mut cells = vec![Cell::new(place)];
            cells.resize_with(STATES.len() + 2, || Cell::new(""));
            cells.push(Cell::new(error.to_string()).style(Style::Bad));
            table.row(cells);
        }
    }
    table
}
