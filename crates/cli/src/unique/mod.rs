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
use crate::database::ask_each;
use crate::exit::{Failure, Verdict};
use crate::interrupt::{may_have_changed, nothing_changed, or_interrupted, or_unanswered};

pub(crate) use self::args::UniqueArguments;

/// Runs a command about unique keys.
pub(crate) async fn run(UniqueArguments { command, database }: UniqueArguments) -> Result<Verdict, Failure> {
    match command {
        UniqueCommand::Explain(arguments) => or_unanswered(nothing_changed, explain::run(arguments, &database)).await,
        UniqueCommand::Holders(arguments) => or_unanswered(nothing_changed, holders::run(arguments, &database)).await,
        UniqueCommand::Show(arguments) => or_unanswered(nothing_changed, show::run(arguments, &database)).await,
        UniqueCommand::Release(arguments) => or_interrupted(release::left, release::run(arguments, &database)).await,
        UniqueCommand::Audit(of) => {
            let left = if of.start || of.stop { may_have_changed } else { nothing_changed };
            or_interrupted(left, ask_each(&database, |client, form| audit::audit(client, form, of.clone()))).await
        }
        UniqueCommand::Backfill(arguments) => {
            let left = if arguments.dry_run { nothing_changed } else { backfill::left };
            or_interrupted(left, backfill::run(arguments, &database)).await
        }
    }
}
