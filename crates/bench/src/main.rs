//! `uniqueue-bench`: how fast the queue is, in times of what the database itself can do.
//!
//! ```text
//! args ─▶ measure ─▶ plan (workload → comparison) ─▶ comparison: rounds of runs ─▶ summary ─▶ report, tables
//!    └──▶ sweep (points → comparisons) ────────┘        ├─ library/: a client and runners
//!                                                       └─ sql/: SQL on our table
//! ```
//!
//! All sides of a comparison find the same jobs, have as many connections and are metered alike.

// A closed standard output must not end the bench with a panic, so only `output` prints.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

#[cfg(not(unix))]
compile_error!("the bench runs on Unix: it starts PostgreSQL");

mod args;
mod comparison;
mod counter;
mod cpu;
mod delays;
mod end_to_end;
mod facts;
mod failure;
mod failures;
mod fill;
mod insert;
mod job;
mod latency;
mod library;
mod measure;
mod meter;
mod output;
mod plan;
mod plans;
mod point;
mod profiler;
mod progress;
mod report;
mod rounded;
mod run;
mod scheduled;
mod schema;
mod sql;
mod statement;
mod summary;
mod sweep;
mod table_size;
mod tables;
mod tasks;
mod test_database;
mod work;
mod workload;

use std::process::ExitCode;
use std::str::FromStr;

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::BenchArguments;
use crate::failure::Failure;
use crate::library::processes::{RunnerArguments, run_process};

#[derive(Debug, Parser)]
#[command(name = "uniqueue-bench", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    bench: BenchArguments,

    #[command(subcommand)]
    process: Option<Process>,
}

#[derive(Debug, Subcommand)]
enum Process {
    /// One runner of a bench, in a process of its own
    #[command(hide = true)]
    Runner(RunnerArguments),
}

fn main() -> ExitCode {
    let Arguments { bench, process } = Arguments::parse();
    start_logging();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::environment("cannot start", "check the limits of this user", error).report(),
    };
    let ended = runtime.block_on(async {
        match process {
            Some(Process::Runner(arguments)) => run_process(arguments).await,
            None => measure::run(bench).await,
        }
    });
    runtime.shutdown_background();
    ended.unwrap_or_else(|failure| failure.report())
}

/// Sends warnings to standard error. `RUST_LOG`, such as `uniqueue=debug`, selects more or less.
fn start_logging() {
    // sqlx warns about each statement that takes a second, which a large insert may take.
    let default = "warn,sqlx=error,uniqueue::outcome=off";
    let chosen = std::env::var("RUST_LOG").ok().and_then(|chosen| Targets::from_str(&chosen).ok());
    let targets = chosen.or_else(|| Targets::from_str(default).ok()).unwrap_or_default();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(targets).with(lines).init();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
