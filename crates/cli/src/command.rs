//! The list of commands, and which module runs each.

use clap::parser::ValueSource;
use clap::{ArgMatches, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::db::{self, DbArguments};
use crate::demo::{self, DemoArguments};
use crate::doctor::{self, DoctorArguments};
use crate::exit::{CommandFuture, Failure, Verdict, may_have_changed, nothing_changed, or_interrupted, or_unanswered};
use crate::help::{self, CompletionsArguments, ManArguments};
use crate::job::{self, JobArguments};
use crate::kind::{self, KindArguments};
use crate::migrate::{self, MigrateArguments};
use crate::output;
use crate::periodic::{self, PeriodicArguments};
use crate::places::{self, PlacesArguments, PlacesCommandArguments};
use crate::queue::{self, QueueArguments};
use crate::serve::{self, ServeArguments};
use crate::stats::{self, StatsArguments};
use crate::top::{self, TopArguments};
use crate::unique::{self, UniqueArguments};
use crate::work::{self, WorkArguments};

/// A PostgreSQL job queue whose heart is unique jobs.
///
/// ***
///
/// Every command that connects to a database takes --database-url or DATABASE_URL, and --schema or UNIQUEUE_SCHEMA. All of
/// them but `top` and `db psql` take --json, which prints one object, or one object a line for a list. `uniqueue COMMAND --help` has examples.
///
/// Examples:
///   uniqueue demo                                   see it work, nothing to set up
///   uniqueue serve --demo                           the dashboard of a queue that lives
///   uniqueue migrate --database-url postgres://localhost/app
///   uniqueue queue list
///   uniqueue job list --state discarded --newer-than 2h
///   uniqueue completions bash > ~/.local/share/bash-completion/completions/uniqueue
///
/// Exit codes:
///   0    done
///   1    ran to its end and found something wrong (each command says when)
///   2    a wrong command line, or something outside failed: the database, a file, a permission
///   3    doctor: something critical was found
///   4    doctor: the role may not see the queue
///   130  interrupted by Ctrl-C or SIGTERM before the end
#[derive(Debug, Parser)]
#[command(name = "uniqueue", version, verbatim_doc_comment)]
struct Arguments {
    /// When to colour: auto, always or never; NO_COLOR turns colour off as well
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    color: ColorChoice,

    #[command(flatten)]
    places: PlacesArguments,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArguments),
    Db(DbArguments),
    Doctor(Box<DoctorArguments>),
    Job(JobArguments),
    Kind(KindArguments),
    Queue(QueueArguments),
    Periodic(PeriodicArguments),
    Places(PlacesCommandArguments),
    Serve(Box<ServeArguments>),
    Stats(StatsArguments),
    Top(TopArguments),
    Migrate(MigrateArguments),
    Unique(UniqueArguments),
    Work(Box<WorkArguments>),
    Completions(CompletionsArguments),
    Man(ManArguments),
}

/// The command line with all its commands.
fn definition() -> clap::Command {
    help::read_docs(Arguments::command())
}

/// Reads the command line. Ends the process with an explanation if the command line is wrong.
pub(crate) fn parse() -> (Command, PlacesArguments) {
    let choice = help::color_choice(std::env::args_os());
    output::choose_color(choice);
    let command = help::lay_out(definition()).color(choice);
    let matches = command.try_get_matches().unwrap_or_else(|error| refuse(&error));
    let mut arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| refuse(&error));
    arguments.places.names_database = names_database(&matches);
    (arguments.command, arguments.places)
}

/// Whether the command line itself, and not only the environment, names a database or a schema.
fn names_database(matches: &ArgMatches) -> bool {
    let is_given = |id: &str| {
        // Not every command has the option.
        matches.try_contains_id(id).is_ok_and(|is_there| is_there)
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    is_given("database_url")
        || is_given("schema")
        || matches.subcommand().is_some_and(|(_, matches)| names_database(matches))
}

/// Prints help, or an error without the passwords of the command line, and ends the process.
fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    let safe = output::without_urls(&text);
    if safe == text {
        // With colours.
        error.exit();
    }
    output::print_to_stderr(safe.trim_end());
    std::process::exit(error.exit_code())
}

/// Runs a command.
pub(crate) async fn run(command: Command, places: &PlacesArguments) -> Result<Verdict, Failure> {
    let is_local = matches!(
        command,
        Command::Places(_) | Command::Completions(_) | Command::Man(_) | Command::Demo(_) | Command::Db(_)
    );
    match (is_local, &places.place) {
        (true, Some(_)) => return Err(Failure::refused("this command takes no --place", "leave it out")),
        (true, None) => {}
        (false, _) => places.choose()?,
    }
    let running: CommandFuture<'_> = match command {
        Command::Completions(arguments) => return help::completions(&arguments, definition()),
        Command::Db(arguments) => Box::pin(db::run(arguments)),
        Command::Demo(arguments) => Box::pin(demo::run(arguments)),
        Command::Doctor(arguments) => Box::pin(or_interrupted(nothing_changed, doctor::run(*arguments))),
        Command::Job(arguments) => Box::pin(job::run(arguments)),
        Command::Kind(arguments) => Box::pin(or_unanswered(may_have_changed, kind::run(arguments))),
        Command::Man(arguments) => return help::man(&arguments, definition()),
        Command::Migrate(arguments) => Box::pin(or_interrupted(nothing_changed, migrate::run(arguments))),
        Command::Periodic(arguments) => Box::pin(or_unanswered(may_have_changed, periodic::run(arguments))),
        Command::Places(arguments) => Box::pin(or_interrupted(may_have_changed, places::run(arguments, places))),
        Command::Queue(arguments) => Box::pin(or_unanswered(may_have_changed, queue::run(arguments))),
        Command::Serve(arguments) => Box::pin(serve::run(*arguments)),
        Command::Stats(arguments) => Box::pin(stats::run(arguments, places::all().cloned())),
        Command::Top(arguments) => Box::pin(or_interrupted(may_have_changed, top::run(arguments))),
        Command::Unique(arguments) => Box::pin(unique::run(arguments)),
        Command::Work(arguments) => Box::pin(work::run(*arguments)),
    };
    running.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
