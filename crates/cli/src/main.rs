//! The `uniqueue` command: for operators, and for first steps.
//!
//! ```text
//! main ─▶ args (clap) ─▶ a module a command ─▶ database (connects, and checks the schema) ─▶ the library's client
//!                             └─▶ output: tables, colour, JSON, bars, questions; failure: errors and exit codes
//! ```

// A reader that is gone must not end a command with a panic: `output` prints, and tells standard error.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

#[cfg(not(unix))]
compile_error!("the uniqueue command runs on Unix: it starts PostgreSQL and keeps file names as bytes");

mod args;
mod bench;
mod database;
mod db;
mod demo;
mod doctor;
mod failure;
mod interrupt;
mod job;
mod manual;
mod migrate;
mod output;
mod periodic;
mod queue;
mod stats;
mod top;
mod unique;

use std::process::ExitCode;
use std::str::FromStr;

use clap::{CommandFactory, FromArgMatches};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::args::{Arguments, Command};
use self::failure::Failure;
use self::interrupt::or_interrupted;
use self::output::ColorChoice;

/// How a command that did its work ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    /// Exit code 0.
    Fine,
    /// Exit code 1: it ran to its end, and what it found is not as it should be.
    NotFine,
    /// Exit code 3: the same, and it is critical.
    Critical,
}

fn main() -> ExitCode {
    let arguments = parse();
    log();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::environment("cannot start", "check the limits of this user", error).report(),
    };
    let ended = runtime.block_on(dispatch(arguments.command));
    // A file that cannot be read to its end, such as one on a dead network mount, must not keep the process.
    runtime.shutdown_background();
    match ended {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::NotFine) => ExitCode::from(1),
        Ok(Verdict::Critical) => ExitCode::from(3),
        Err(failure) => failure.report(),
    }
}

/// Reads the command line, or ends the process with what is wrong with it.
fn parse() -> Arguments {
    let choice = args::color_of(std::env::args_os());
    output::choose_color(choice);
    let command = args::laid_out(Arguments::command()).color(match choice {
        ColorChoice::Auto => clap::ColorChoice::Auto,
        ColorChoice::Always => clap::ColorChoice::Always,
        ColorChoice::Never => clap::ColorChoice::Never,
    });
    let matches = command.get_matches();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

async fn dispatch(command: Command) -> Result<Verdict, Failure> {
    match command {
        Command::Bench(arguments) => bench::run(*arguments).await,
        Command::BenchRunner(arguments) => bench::run_bench_runner(arguments).await,
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Db(arguments) => db::run(arguments).await,
        Command::Job(arguments) => job::run(arguments).await,
        Command::Man(arguments) => manual::man(&arguments),
        Command::Doctor(arguments) => or_interrupted(no_change, doctor::run(*arguments)).await,
        Command::Periodic(arguments) => or_interrupted(perhaps, periodic::run(arguments)).await,
        Command::Queue(arguments) => or_interrupted(perhaps, queue::run(arguments)).await,
        Command::Stats(arguments) => or_interrupted(no_change, stats::run(arguments)).await,
        Command::Unique(arguments) => unique::run(arguments).await,
        Command::Top(arguments) => or_interrupted(perhaps, top::run(arguments)).await,
        Command::Migrate(arguments) => or_interrupted(no_change, migrate::run(arguments)).await,
    }
}

/// What a command leaves that does all in one transaction, or only looks.
fn no_change() -> String {
    "nothing was changed".to_owned()
}

/// What a command leaves whose one statement was on its way.
fn perhaps() -> String {
    "what was under way may have been done".to_owned()
}

/// Warnings go to standard error; `RUST_LOG`, such as `uniqueue=debug`, shows more or less.
fn log() {
    // sqlx warns of each statement that takes a second, as a large insert may; and what becomes of
    // the jobs that a command works is what it reports itself.
    let quiet = "warn,sqlx=error,uniqueue::runner::verdict=off";
    let wanted = std::env::var("RUST_LOG").ok().and_then(|wanted| Targets::from_str(&wanted).ok());
    let targets = wanted.or_else(|| Targets::from_str(quiet).ok()).unwrap_or_default();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(targets).with(lines).init();
}
