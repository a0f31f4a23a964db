//! The `uniqueue` command: for operators, and for first steps.
//!
//! ```text
//! main ─▶ command (the list of commands) ─▶ one module for each command ─▶ database (ask) ─▶ the library's client
//!                                               └─▶ output, exit
//! ```
//!
//! A command's module has the command's name: `uniqueue job list` is `job/list.rs`. It holds the command's arguments, its
//! help and its `run`.

// A closed standard output must not end a command with a panic, so only `output` prints.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

#[cfg(not(unix))]
compile_error!("the uniqueue command runs on Unix: it starts PostgreSQL and keeps file names as bytes");

mod arguments;
mod command;
mod database;
mod db;
mod demo;
mod doctor;
mod exit;
mod help;
mod job;
mod kind;
mod migrate;
mod output;
mod own_name;
mod percent;
mod periodic;
mod places;
mod prelude;
mod queue;
mod serve;
mod stats;
mod top;
mod unique;
mod work;

use std::process::ExitCode;
use std::str::FromStr;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::exit::Failure;

fn main() -> ExitCode {
    let (command, places) = command::parse();
    start_logging();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::environment("cannot start", "check the limits of this user", error).report(),
    };
    let ended = runtime.block_on(command::run(command, &places));
    // A blocked read, such as one from a dead network mount, must not keep the process alive.
    runtime.shutdown_background();
    ended.map_or_else(|failure| failure.report(), ExitCode::from)
}

/// Sends warnings to standard error. `RUST_LOG`, such as `uniqueue=debug`, selects more or less.
fn start_logging() {
    // sqlx warns about each statement that takes a second, which a large insert may take. A command that works jobs
    // reports their results itself.
    let default = "warn,sqlx=error,uniqueue::outcome=off";
    let chosen = std::env::var("RUST_LOG").ok().and_then(|chosen| Targets::from_str(&chosen).ok());
    let targets = chosen.or_else(|| Targets::from_str(default).ok()).unwrap_or_default();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(targets).with(lines).init();
}
