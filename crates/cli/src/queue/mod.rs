//! `uniqueue queue`: list and configure queues.

mod backfill;
mod groups;
mod list;
mod pause;
mod remove;
mod set;

use clap::{Args, Subcommand};

use self::backfill::BackfillArguments;
use self::groups::GroupsArguments;
use self::list::ListArguments;
use self::pause::{HoldArguments, PauseArguments, ResumeArguments};
use self::remove::RemoveArguments;
use self::set::{LimitArguments, MaxWaitingArguments, RateArguments, RetentionArguments};
use crate::exit::{Failure, Verdict};

pub(crate) use self::list::{Status, table};

/// List queues and their groups, pause, hold, resume and limit them, set their rates, set how long their jobs are kept, put waiting jobs in groups, and remove their settings.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QueueArguments {
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    List(ListArguments),
    Groups(GroupsArguments),
    Pause(PauseArguments),
    Resume(ResumeArguments),
    Hold(HoldArguments),
    Limit(LimitArguments),
    MaxWaiting(MaxWaitingArguments),
    Rate(RateArguments),
    Retention(RetentionArguments),
    Backfill(BackfillArguments),
    Remove(RemoveArguments),
}

const EXAMPLES: &str = "\
Examples:
  uniqueue queue list
  uniqueue queue pause emails
  uniqueue queue limit geocoding 5
  uniqueue queue rate geocoding 10/1s

Exit codes:
  1    a queue has no settings to remove, or is in use";

/// Runs a command about queues.
pub(crate) async fn run(arguments: QueueArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        QueueCommand::List(arguments) => list::run(arguments).await,
        QueueCommand::Groups(arguments) => groups::run(arguments).await,
        QueueCommand::Pause(arguments) => pause::pause(arguments).await,
        QueueCommand::Resume(arguments) => pause::resume(arguments).await,
        QueueCommand::Hold(arguments) => pause::hold(arguments).await,
        QueueCommand::Limit(arguments) => set::limit(arguments).await,
        QueueCommand::MaxWaiting(arguments) => set::max_waiting(arguments).await,
        QueueCommand::Rate(arguments) => set::rate(arguments).await,
        QueueCommand::Retention(arguments) => set::retention(arguments).await,
        QueueCommand::Backfill(arguments) => backfill::run(arguments).await,
        QueueCommand::Remove(arguments) => remove::run(arguments).await,
    }
}
