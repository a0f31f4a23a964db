//! `uniqueue job`: looking at jobs, inserting and changing them.
//!
//! ```text
//! filter (--state, --queue, …) ─┬─▶ list: pages
//!                               └─▶ change: count, sample, ask, then batch by batch
//! id ─▶ show: everything about one
//! ```

mod change;
mod filter;
mod insert;
mod json;
mod list;
mod show;
mod verb;
mod when;

use clap::{Args, Subcommand};

use self::insert::InsertArguments;
use self::list::ListArguments;
use self::show::ShowArguments;
use self::verb::{
    CancelArguments, DeleteArguments, PriorityArguments, ReleaseArguments, RescheduleArguments, RetryArguments, Verb,
};
use crate::Verdict;
use crate::failure::Failure;
use crate::interrupt::or_interrupted;

/// Look at jobs, insert and change them.
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
    Retry(Box<RetryArguments>),
    Cancel(Box<CancelArguments>),
    Delete(Box<DeleteArguments>),
    Reschedule(Box<RescheduleArguments>),
    Release(Box<ReleaseArguments>),
    Priority(Box<PriorityArguments>),
}

const EXAMPLES: &str = "\
Examples:
  uniqueue job list --state discarded --queue emails
  uniqueue job show 019abc12-3456-7def-8a12-3456789abcde
  uniqueue job retry --state discarded --kind email.send --dry-run
  uniqueue job insert email.send --args '{\"user_id\": 42}'

Exit codes:
  0    done
  1    a job that is not there, or is in no state for what was asked
  2    a wrong command line, or something outside that failed
  130  interrupted by Ctrl-C or SIGTERM before the end; it says how far it came";

/// Runs one of them.
pub(crate) async fn run(arguments: JobArguments) -> Result<Verdict, Failure> {
    let nothing = || "nothing was changed".to_owned();
    match arguments.command {
        JobCommand::List(arguments) => or_interrupted(nothing, list::run(*arguments)).await,
        JobCommand::Show(arguments) => or_interrupted(nothing, show::run(arguments)).await,
        JobCommand::Insert(arguments) => {
            let perhaps = || "the job may have been inserted; with --id the same insert can be sent again".to_owned();
            or_interrupted(perhaps, insert::run(*arguments)).await
        }
        JobCommand::Retry(arguments) => change::run(Verb::Retry, arguments.change).await,
        JobCommand::Cancel(arguments) => change::run(Verb::Cancel, arguments.change).await,
        JobCommand::Delete(arguments) => change::run(Verb::Delete, arguments.change).await,
        JobCommand::Reschedule(arguments) => change::run(Verb::Reschedule(arguments.at()), arguments.change).await,
        JobCommand::Release(arguments) => change::run(Verb::Release, arguments.change).await,
        JobCommand::Priority(arguments) => change::run(Verb::Priority(arguments.new_priority), arguments.change).await,
    }
}
