//! `uniqueue db`: a PostgreSQL server for development, on this machine.

mod psql;
mod server;

use crate::prelude::*;

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
    Start(server::StartArguments),
    Stop(server::StopArguments),
    Psql(psql::PsqlArguments),
}

/// Runs a command about the server for development.
pub(crate) async fn run(arguments: DbArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        DbCommand::Start(arguments) => server::start(arguments).await,
        DbCommand::Stop(arguments) => server::stop(arguments).await,
        DbCommand::Psql(arguments) => psql::psql(arguments).await,
    }
}
