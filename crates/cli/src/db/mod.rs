//! `uniqueue db`: a PostgreSQL server for development, on this machine.

mod data_dir;
mod psql;
mod start;
mod stop;

use clap::{Args, Subcommand};

use crate::exit::{Failure, Verdict};

/// Run a PostgreSQL server for development, stop it, open psql.
///
/// Examples:
///   uniqueue db start                in one terminal
///   uniqueue db psql                 in another
///   uniqueue db stop
///
/// Exit codes:
///   1    stop: no server runs there
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DbArguments {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    Start(start::StartArguments),
    Stop(stop::StopArguments),
    Psql(psql::PsqlArguments),
}

/// Runs a command about the server for development.
pub(crate) async fn run(arguments: DbArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        DbCommand::Start(arguments) => start::start(arguments).await,
        DbCommand::Stop(arguments) => stop::stop(arguments).await,
        DbCommand::Psql(arguments) => psql::psql(arguments).await,
    }
}
