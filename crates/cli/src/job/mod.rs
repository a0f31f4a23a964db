//! `uniqueue job`: list, show, insert, wait for and change jobs.
//!
//! ```text
//! filter (--state, --queue, …) ─┬─▶ list: pages
//!                               └─▶ change: count, sample, confirm, then batch by batch
//! id ─▶ show: everything about one job
//! ```

mod change;
mod filter;
mod id_argument;
mod insert;
pub(crate) mod list;
mod show;
mod verb;
mod wait;

use clap::{Args, Subcommand};

use self::insert::InsertArguments;
use self::list::ListArguments;
use self::show::ShowArguments;
use self::verb::VerbCommand;
use self::wait::WaitArguments;
use crate::exit::{Failure, Verdict};
use crate::interrupt::{nothing_changed, or_interrupted, or_unanswered};

/// List, show, insert, wait for and change jobs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct JobArguments {
    #[command(subcommand)]
    command: JobCommand,
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

const EXAMPLES: &str = "\
Examples:
  uniqueue job list --state discarded --queue emails
  uniqueue job show 019abc12-3456-7def-8a12-3456789abcde
  uniqueue job retry --state discarded --kind email.send --dry-run
  uniqueue job insert email.send --args '{\"user_id\": 42}'

Exit codes:
  1    a job does not exist, or is in no state for the command
  130  interrupted by Ctrl-C or SIGTERM before the end; it prints how many jobs it changed";

/// Runs a command about jobs.
pub(crate) async fn run(arguments: JobArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        JobCommand::List(arguments) => or_unanswered(nothing_changed, list::run(*arguments)).await,
        JobCommand::Show(arguments) => or_unanswered(nothing_changed, show::run(arguments)).await,
        JobCommand::Insert(arguments) => {
            let left = || "the job may have been inserted; with --id the same insert can be sent again".to_owned();
            or_interrupted(left, insert::run(*arguments)).await
        }
        JobCommand::Wait(arguments) => or_interrupted(nothing_changed, wait::run(arguments)).await,
        JobCommand::Change(verb) => verb.run().await,
    }
}
