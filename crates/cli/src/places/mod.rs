//! `uniqueue places`: naming, checking and migrating the places of a map.

mod choice;

use std::collections::BTreeMap;

use uniqueue::{Error, PlaceName, Places, Result};
use uniqueue_admin::{COMPARED_KEYS, Stats, doubled_keys};

use crate::prelude::*;

pub(crate) use self::choice::{Choice, PlacesArguments, all, choice};

/// Name, check and migrate the places of a map.
///
/// A place is a schema that is a whole queue. A map is a JSON file with the places of an
/// application: {"places": [{"name": "a", "url": "postgres://db-1/app"}, …], "hashed": ["a", …]}. Commands that read
/// take --places FILE: doctor, stats, serve and the lists. They ask all places at once, and lists have a column with the place.
/// Every command works in one place with --place NAME beside it.
///
/// Examples:
///   uniqueue places migrate --places places.json
///   uniqueue places status --places places.json
///   uniqueue job list --state discarded --places places.json
///   uniqueue job retry --kind email.send --places places.json --place a
///
/// Exit codes:
///   1    something is wrong with a place
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PlacesCommandArguments {
    #[command(subcommand)]
    command: PlacesCommand,
}

/// The arguments of each command.
#[derive(Debug, Args)]
struct Format {
    /// Print JSON instead of text: one object a line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum PlacesCommand {
    /// Write to each place its name and the list of hashed places.
    ///
    /// A place that has them is left alone. A schema that is another place already is refused.
    ///
    /// Examples:
    ///   uniqueue places init --places places.json
    ///
    /// Exit codes:
    ///   0    every place has its name
    ///   1    a place does not answer, or is another place already
    #[command(verbatim_doc_comment)]
    Init(Format),

    /// Say that a place is in its database now, after a restore, a copy or pg_upgrade.
    ///
    /// The database of a place has an id. A schema in another database is a copy, which clients refuse until it is adopted. No other
    /// server may have the place any more. A promoted standby has the id of its primary.
    ///
    /// Examples:
    ///   uniqueue places adopt a --places places.json
    ///
    /// Exit codes:
    ///   0    the place is where the map says
    ///   1    the place does not answer, or is another place
    #[command(verbatim_doc_comment)]
    Adopt {
        /// The name of the place
        // Not `place`, which is the id of the option --place.
        #[arg(value_name = "PLACE")]
        adopted: String,
    },

    /// Check that each place answers, is the place of the map, and has the schema that this uniqueue needs.
    ///
    /// It also compares the first 10,000 unique keys of each hashed place: no key is claimed in two of them.
    ///
    /// Examples:
    ///   uniqueue places check --places places.json
    ///
    /// Exit codes:
    ///   0    all places are well
    ///   1    a place is not, or a key is claimed in two hashed places
    #[command(verbatim_doc_comment)]
    Check(Format),

    /// Show the runners and the jobs of each place, and their sums.
    ///
    /// Counts above 10,000 a queue and state are estimates, such as ~537 k, or lower bounds, such as > 10 k. With --json a count
    /// is {"exactly": n}, {"about": n} or {"at_least": n}.
    ///
    /// Examples:
    ///   uniqueue places status --places places.json
    ///
    /// Exit codes:
    ///   1    a place does not answer, or is another than the map says
    #[command(verbatim_doc_comment)]
    Status(Format),

    /// Bring the schema of each place up to date, and give new places their names.
    ///
    /// Examples:
    ///   uniqueue places migrate --places places.json
    ///
    /// Exit codes:
    ///   0    every place is up to date and has its name
    ///   1    a place does not answer, or cannot be migrated
    #[command(verbatim_doc_comment)]
    Migrate(Format),
}

/// Runs a command about places.
pub(crate) async fn run(arguments: PlacesCommandArguments, places: &PlacesArguments) -> Result<Verdict, Failure> {
    let places = Places::new(places.map()?);
    match arguments.command {
        PlacesCommand::Init(Format { json }) => report(json, &places, places.init().await, |()| "named".to_owned()),
        PlacesCommand::Adopt { adopted } => adopt(&places, &adopted).await,
        PlacesCommand::Check(Format { json }) => check(json, &places).await,
        PlacesCommand::Migrate(Format { json }) => migrate(json, &places).await,
        PlacesCommand::Status(Format { json }) => status(json, &places).await,
    }
}

async fn adopt(places: &Places, name: &str) -> Result<Verdict, Failure> {
    let place = places.map().place(name)?.name();
    match places.adopt(name).await {
        Ok(()) => Answer::of(output::wrapped(&format!("place {place} is in this database now\n"))).print(),
        Err(error) => Answer::not_fine(error.to_string()).print(),
    }
}

async fn check(json: bool, places: &Places) -> Result<Verdict, Failure> {
    let verdict = report(json, places, places.check().await, |()| "well".to_owned())?;
    let doubled = doubled_keys(places, COMPARED_KEYS).await;
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

/// Prints what came of each place.
fn report<T>(
    json: bool,
    places: &Places,
    answers: Vec<(PlaceName, Result<T>)>,
    words: impl Fn(T) -> String,
) -> Result<Verdict, Failure> {
    let said = answers.into_iter().zip(places.map().places()).map(|((_, answer), place)| {
        let ok = answer.is_ok();
        let state = answer.map_or_else(|error| error.to_string(), &words);
        Said { ok, place: place.name(), schema: place.schema_name().as_str(), state }
    });
    let said: Vec<_> = said.collect();
    let table = |said: &[Said<'_>]| {
        List::of(said)
            .column(Column::text("place"), |of| of.place)
            .column(Column::text("schema").optional(), |of| of.schema)
            .column(Column::long("state"), |of| {
                Cell::new(&of.state).style(if of.ok { Style::Plain } else { Style::Bad })
            })
            .table()
    };
    let verdict = if said.iter().all(|of| of.ok) { Verdict::Fine } else { Verdict::NotFine };
    Form::of_one(json).list(&said, table)?.verdict(verdict).print()
}

/// The result for a place, as `--json` prints it.
#[derive(Serialize)]
struct Said<'a> {
    ok: bool,
    place: &'a PlaceName,
    schema: &'a str,
    state: String,
}

/// The states of the columns.
const STATES: [JobState; 4] = [JobState::Available, JobState::Running, JobState::Retryable, JobState::Discarded];

async fn status(json: bool, places: &Places) -> Result<Verdict, Failure> {
    let answers = places.ask(|client: Client| async move { Admin::new(&client).stats().sample(1).await }).await;
    let verdict = if answers.iter().all(|(_, answer)| answer.is_ok()) { Verdict::Fine } else { Verdict::NotFine };
    let line = |(place, answer): &(PlaceName, Result<Stats>)| match answer {
        Ok(stats) => {
            let jobs: BTreeMap<_, _> = STATES.map(|state| (state.as_str(), jobs_in(stats, state))).into();
            json!({"place": place, "ok": true, "runners": stats.runners, "jobs": jobs})
        }
        Err(error) => json!({"place": place, "ok": false, "state": error.to_string()}),
    };
    let answer = match json {
        true => Form::of_one(json).lines(answers.iter().map(line))?,
        false => Answer::of(format!("{}\n", table(&answers).text_without_count())),
    };
    answer.verdict(verdict).print()
}

fn jobs_in(stats: &Stats, state: JobState) -> JobCount {
    stats.jobs.get(&state).copied().unwrap_or(JobCount::Exactly(0))
}

fn table(answers: &[(PlaceName, Result<Stats>)]) -> Table {
    let known = || answers.iter().filter_map(|(place, answer)| Some((place.as_str(), Ok(answer.as_ref().ok()?))));
    let silent = answers.iter().filter_map(|(place, answer)| Some((place.as_str(), Err(answer.as_ref().err()?))));
    let sums = Stats::merged(answers.iter().filter_map(|(_, answer)| answer.as_ref().ok().cloned()));
    let rows: Vec<_> = known().chain(sums.as_ref().map(|sums| ("all", Ok(sums)))).chain(silent).collect();
    let of = |row: &std::result::Result<&Stats, &Error>, number: &dyn Fn(&Stats) -> String| {
        row.map_or_else(|_| String::new(), number)
    };
    let list = List::of(&rows)
        .column(Column::text("place"), |(place, _)| place)
        .column(Column::number("runners"), |(_, row)| of(row, &|stats| count(stats.runners)));
    let list = STATES.into_iter().fold(list, |list, state| {
        let number = move |stats: &Stats| output::jobs(jobs_in(stats, state));
        list.column(Column::number(state.as_str()), move |(_, row)| of(row, &number))
    });
    list.column(Column::long("problem"), |(_, row)| {
        Cell::new(row.err().map(ToString::to_string).unwrap_or_default()).style(Style::Bad)
    })
    .table()
}
