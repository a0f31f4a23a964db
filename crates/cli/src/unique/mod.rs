//! `uniqueue unique`: who holds a key, why an insert is a duplicate, and what to do about it.

mod args;
mod audit;
mod backfill;
mod explain;
mod holders;
mod policy;
mod release;
mod show;

pub(crate) use self::args::UniqueArguments;

use self::args::UniqueCommand;
use crate::Verdict;
use crate::failure::Failure;
use crate::interrupt::or_interrupted;
use crate::{no_change, perhaps};

/// Runs a command about unique keys.
pub(crate) async fn run(arguments: UniqueArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        UniqueCommand::Explain(arguments) => or_interrupted(no_change, explain::run(arguments)).await,
        UniqueCommand::Holders(arguments) => or_interrupted(no_change, holders::run(arguments)).await,
        UniqueCommand::Show(arguments) => or_interrupted(no_change, show::run(arguments)).await,
        UniqueCommand::Release(arguments) => or_interrupted(release::left, release::run(arguments)).await,
        UniqueCommand::Audit(arguments) => {
            let left = if arguments.start || arguments.stop { perhaps } else { no_change };
            or_interrupted(left, audit::run(arguments)).await
        }
        UniqueCommand::Backfill(arguments) => {
            let left = if arguments.dry_run { no_change } else { backfill::left };
            or_interrupted(left, backfill::run(arguments)).await
        }
    }
}
