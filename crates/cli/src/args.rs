//! What can be said on the command line: the commands, and what they share. What a command takes stands in its module.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};
use uniqueue::SchemaName;

use crate::bench::{BenchArguments, BenchRunnerArguments};
use crate::db::DbArguments;
use crate::demo::DemoArguments;
use crate::doctor::DoctorArguments;
use crate::job::JobArguments;
use crate::manual::{CompletionsArguments, ManArguments};
use crate::migrate::MigrateArguments;
use crate::output::{self, ColorChoice};
use crate::periodic::PeriodicArguments;
use crate::queue::QueueCommandArguments;
use crate::stats::StatsArguments;
use crate::top::TopArguments;
use crate::unique::UniqueArguments;

/// A PostgreSQL job queue whose heart is unique jobs.
#[derive(Debug, Parser)]
#[command(name = "uniqueue", version, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// When to colour: auto, always or never; NO_COLOR switches it off as well
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) color: ColorChoice,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArguments),
    Db(DbArguments),
    Doctor(Box<DoctorArguments>),
    Job(JobArguments),
    Queue(QueueCommandArguments),
    Periodic(PeriodicArguments),
    Stats(StatsArguments),
    Top(TopArguments),
    Migrate(MigrateArguments),
    Unique(UniqueArguments),
    Bench(Box<BenchArguments>),
    Completions(CompletionsArguments),
    Man(ManArguments),
    /// One runner of a bench, in a process of its own
    #[command(hide = true)]
    BenchRunner(BenchRunnerArguments),
}

const AFTER_HELP: &str = "\
Every command that looks into a database takes --database-url or DATABASE_URL, --schema, and, but for `top` and
`db psql`, --json: one object, or in a list one object a line. `uniqueue COMMAND --help` has examples of each.

Examples:
  uniqueue demo                                   see it work, nothing to set up
  uniqueue migrate --database-url postgres://localhost/app
  uniqueue queue list
  uniqueue job list --state discarded --newer-than 2h
  uniqueue completions bash > ~/.local/share/bash-completion/completions/uniqueue

Exit codes:
  0    done
  1    ran to its end, and what it found is not right (each command says when)
  2    a wrong command line, or something outside that failed: the database, a file, a permission
  3    doctor: something critical was found
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Which queue, and how to answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueueArguments {
    /// The database, such as postgres://user:password@host:5432/database
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,

    /// The schema that holds the queue
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) schema: SchemaName,

    /// Print JSON instead of text: one object, or in a list one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What every help looks like: after what a command does, what one should know of it. clap has this in its long form only,
/// where each option takes three lines.
const HELP: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// How wide help is where no terminal says.
const WIDTH: usize = 120;

/// Lays out the help of a command, and of those below it.
pub(crate) fn laid_out(command: clap::Command) -> clap::Command {
    let more = command.get_long_about().map(ToString::to_string);
    let more = more.and_then(|about| about.split_once("\n\n").map(|(_, more)| more.to_owned()));
    let command = match more {
        Some(more) => command.long_about(None::<&str>).before_help(more),
        None => command,
    };
    command.help_template(HELP).term_width(output::width().unwrap_or(WIDTH)).mut_subcommands(laid_out)
}

/// What --color says, found before the command line is understood: its errors and help are coloured as well.
pub(crate) fn color_of(arguments: impl IntoIterator<Item = OsString>) -> ColorChoice {
    let words = arguments.into_iter().filter_map(|argument| argument.into_string().ok());
    let (mut choice, mut is_next) = (ColorChoice::default(), false);
    for word in words.take_while(|word| word != "--") {
        let given = if is_next { Some(word.as_str()) } else { word.strip_prefix("--color=") };
        if let Some(given) = given.and_then(|given| ColorChoice::from_str(given, false).ok()) {
            choice = given;
        }
        is_next = word == "--color";
    }
    choice
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn color_is_found_before_the_command_line_is_understood() {
        let found = |line: &str| color_of(line.split(' ').map(OsString::from));
        assert_eq!(found("uniqueue --color never dance"), ColorChoice::Never);
        assert_eq!(found("uniqueue demo --color=always"), ColorChoice::Always);
        assert_eq!(found("uniqueue demo --color"), ColorChoice::Auto);
        assert_eq!(found("uniqueue db psql -- --color=never"), ColorChoice::Auto);
    }
}
