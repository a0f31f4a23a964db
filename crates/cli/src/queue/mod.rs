//! `uniqueue queue`: looking at queues, and setting them.

mod list;
mod set;
mod status;

use clap::{Args, Subcommand};

use self::list::ListArguments;
use self::set::{LimitArguments, PauseArguments, ResumeArguments, RetentionArguments};
pub(crate) use self::status::Status;
use crate::Verdict;
use crate::failure::Failure;

/// Look at queues, pause, resume and limit them, and say how long their jobs are kept.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QueueCommandArguments {
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    List(ListArguments),
    Pause(PauseArguments),
    Resume(ResumeArguments),
    Limit(LimitArguments),
    Retention(RetentionArguments),
}

const EXAMPLES: &str = "\
Examples:
  uniqueue queue list
  uniqueue queue pause emails
  uniqueue queue limit geocoding 5

Exit codes:
  0    done
  2    a wrong command line, a name that cannot be a queue's, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Runs one of them.
pub(crate) async fn run(arguments: QueueCommandArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        QueueCommand::List(arguments) => list::run(arguments).await,
        QueueCommand::Pause(arguments) => set::pause(arguments).await,
        QueueCommand::Resume(arguments) => set::resume(arguments).await,
        QueueCommand::Limit(arguments) => set::limit(arguments).await,
        QueueCommand::Retention(arguments) => set::retention(arguments).await,
    }
}
