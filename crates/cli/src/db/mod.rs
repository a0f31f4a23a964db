//! `uniqueue db`: a PostgreSQL server for development, on this machine.

mod data_dir;
mod psql;
mod start;
mod stop;

use clap::{Args, Subcommand};

use crate::exit::{Failure, Verdict};

/// Run a PostgreSQL server for development, stop it, open psql.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DbArguments {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    /// Run PostgreSQL in the foreground until Ctrl-C, with a data directory that stays
    Start(start::StartArguments),
    /// Stop the server that `uniqueue db start` runs in another terminal
    Stop(stop::StopArguments),
    /// Open psql on the queue's database
    Psql(psql::PsqlArguments),
}

const EXAMPLES: &str = "\
Examples:
  uniqueue db start                in one terminal
  uniqueue db psql                 in another
  uniqueue db stop

Exit codes:
  1    stop: no server runs there";

/// Runs a command about the server for development.
pub(crate) async fn run(arguments: DbArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        DbCommand::Start(arguments) => start::start(arguments).await,
        DbCommand::Stop(arguments) => stop::stop(arguments).await,
        DbCommand::Psql(arguments) => psql::psql(arguments).await,
    }
}
