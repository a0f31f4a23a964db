//! `uniqueue job`: list, show, insert, wait for and change jobs.
//!
//! ```text
//! filter (--state, --queue, …) ─┬─▶ list: pages
//!                               └─▶ change: count, sample, confirm, then batch by batch
//! id ─▶ show: everything about one job
//! ```

mod change;
mod filter;
mod insert;
pub(crate) mod list;
pub(crate) mod show;
mod verb;
mod wait;

use self::insert::InsertArguments;
use self::list::ListArguments;
use self::show::ShowArguments;
use self::verb::VerbCommand;
use self::wait::WaitArguments;
use crate::prelude::*;

/// List, show, insert, wait for and change jobs.
///
/// Examples:
///   uniqueue job list --state discarded --queue emails
///   uniqueue job show 019abc12-3456-7def-8a12-3456789abcde
///   uniqueue job retry --state discarded --kind email.send --dry-run
///   uniqueue job insert email.send --args '{"user_id": 42}'
///
/// Exit codes:
///   1    a job does not exist, or is in no state for the command
///   130  interrupted by Ctrl-C or SIGTERM before the end; it prints how many jobs it changed
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct JobArguments {
    #[command(subcommand)]
    command: JobCommand,

    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Debug, Subcommand)]
enum JobCommand {
    List(Box<ListArguments>),
    Show(ShowArguments),
    Insert(Box<InsertArguments>),
    Wait(WaitArguments),
    #[command(flatten)]
    Change(Box<VerbCommand>),
}

/// Runs a command about jobs.
pub(crate) async fn run(JobArguments { command, database }: JobArguments) -> Result<Verdict, Failure> {
    match command {
        JobCommand::List(of) => {
            let list = ask_each(&database, |client, form| list::page(client, form, (*of).clone()));
            or_unanswered(nothing_changed, list).await
        }
        JobCommand::Show(of) => {
            let show = ask_each(&database, |client, form| show::show(client, form, of.clone()));
            or_unanswered(nothing_changed, show).await
        }
        JobCommand::Insert(arguments) => {
            let left = || "the job may have been inserted; with --id the same insert can be sent again".to_owned();
            or_interrupted(left, insert::run(*arguments, &database)).await
        }
        JobCommand::Wait(arguments) => or_interrupted(nothing_changed, wait::run(arguments, &database)).await,
        JobCommand::Change(verb) => verb.run(&database).await,
    }
}
