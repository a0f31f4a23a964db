//! `uniqueue unique`: the holders of unique keys, and why an insert is a duplicate.

mod audit;
pub(crate) mod backfill;
mod explain;
mod holders;
mod release;
mod show;

use self::audit::AuditArguments;
use self::backfill::BackfillArguments;
use self::explain::ExplainArguments;
use self::holders::HoldersArguments;
use self::release::ReleaseArguments;
use self::show::ShowArguments;
use crate::prelude::*;

/// Show unique keys and their holders, release a key, count duplicates, give keys to queued jobs.
///
/// A key is claimed by at most one job at a time, its holder. An insert that meets a holder is a duplicate.
///
/// Examples:
///   uniqueue unique show 71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f
///   uniqueue unique holders --kind email.send
///   uniqueue unique explain email.send --args '{"user_id": 42}' --policy '{"keys": ["args"]}'
///   uniqueue unique backfill --kind email.send --policy policy.json --dry-run
///
/// Exit codes:
///   1    ran to its end and found something wrong (each command says when)
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UniqueArguments {
    #[command(subcommand)]
    command: UniqueCommand,

    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Debug, Subcommand)]
enum UniqueCommand {
    Explain(ExplainArguments),
    Holders(HoldersArguments),
    Show(ShowArguments),
    Release(ReleaseArguments),
    Audit(AuditArguments),
    Backfill(BackfillArguments),
}

/// Runs a command about unique keys.
pub(crate) async fn run(UniqueArguments { command, database: given }: UniqueArguments) -> Result<Verdict, Failure> {
    match command {
        UniqueCommand::Explain(of) => {
            or_unanswered(nothing_changed, ask(&given, async |client, form| explain::explain(client, form, of).await))
                .await
        }
        UniqueCommand::Holders(of) => {
            or_unanswered(nothing_changed, ask(&given, async |client, form| holders::holders(client, form, of).await))
                .await
        }
        UniqueCommand::Show(of) => {
            or_unanswered(nothing_changed, ask(&given, async |client, form| show::show(client, form, of).await)).await
        }
        UniqueCommand::Release(of) => {
            or_interrupted(release::left, ask(&given, async |client, form| release::release(client, form, of).await))
                .await
        }
        UniqueCommand::Audit(of) => {
            let left = if of.start || of.stop { may_have_changed } else { nothing_changed };
            or_interrupted(left, ask_each(&given, |client, form| audit::audit(client, form, of.clone()))).await
        }
        UniqueCommand::Backfill(of) => {
            let left = if of.dry_run { nothing_changed } else { backfill::left };
            or_interrupted(left, ask(&given, async |client, form| backfill::backfill(client, form, of).await)).await
        }
    }
}
