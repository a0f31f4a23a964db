//! `uniqueue unique`: the holders of unique keys, and why an insert is a duplicate.

mod args;
mod audit;
pub(crate) mod backfill;
mod explain;
mod holders;
mod release;
mod show;
mod trial;

use self::args::UniqueCommand;
use crate::exit::{Failure, Verdict};
use crate::interrupt::{may_have_changed, nothing_changed, or_interrupted, or_unanswered};

pub(crate) use self::args::UniqueArguments;

/// Runs a command about unique keys.
pub(crate) async fn run(arguments: UniqueArguments) -> Result<Verdict, Failure> {
    match arguments.command {
        UniqueCommand::Explain(arguments) => or_unanswered(nothing_changed, explain::run(arguments)).await,
        UniqueCommand::Holders(arguments) => or_unanswered(nothing_changed, holders::run(arguments)).await,
        UniqueCommand::Show(arguments) => or_unanswered(nothing_changed, show::run(arguments)).await,
        UniqueCommand::Release(arguments) => or_interrupted(release::left, release::run(arguments)).await,
        UniqueCommand::Audit(arguments) => {
            let left = if arguments.start || arguments.stop { may_have_changed } else { nothing_changed };
            or_interrupted(left, audit::run(arguments)).await
        }
        UniqueCommand::Backfill(arguments) => {
            let left = if arguments.dry_run { nothing_changed } else { backfill::left };
            or_interrupted(left, backfill::run(arguments)).await
        }
    }
}
