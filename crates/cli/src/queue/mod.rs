//! `uniqueue queue`: list and configure queues.

mod backfill;
mod list;
mod pause;
mod set;

use self::backfill::BackfillArguments;
use self::list::{GroupsArguments, ListArguments};
use self::pause::{HoldArguments, PauseArguments, RemoveArguments, ResumeArguments};
use self::set::{LimitArguments, MaxWaitingArguments, RateArguments, RetentionArguments};
use crate::prelude::*;

pub(crate) use self::list::table;

/// List queues and their groups, pause, hold, resume and limit them, set their rates, set how long their jobs are kept, put waiting jobs in groups, and remove their settings.
///
/// Examples:
///   uniqueue queue list
///   uniqueue queue pause emails
///   uniqueue queue limit geocoding 5
///   uniqueue queue rate geocoding 10/1s
///
/// Exit codes:
///   1    a queue has no settings to remove, or is in use
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct QueueArguments {
    #[command(subcommand)]
    command: QueueCommand,

    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    List(ListArguments),
    Groups(GroupsArguments),
    #[command(flatten)]
    Setting(SettingCommand),
    Backfill(BackfillArguments),
}

#[derive(Debug, Subcommand)]
enum SettingCommand {
    Pause(PauseArguments),
    Resume(ResumeArguments),
    Hold(HoldArguments),
    Limit(LimitArguments),
    MaxWaiting(MaxWaitingArguments),
    Rate(RateArguments),
    Retention(RetentionArguments),
    Remove(RemoveArguments),
}

/// Runs a command about queues.
pub(crate) async fn run(QueueArguments { command, database }: QueueArguments) -> Result<Verdict, Failure> {
    match command {
        QueueCommand::List(of) => ask_each(&database, |client, form| list::list(client, form, of.clone())).await,
        QueueCommand::Groups(of) => ask_each(&database, |client, form| list::groups(client, form, of.clone())).await,
        QueueCommand::Setting(setting) => ask(&database, async |client, form| set(client, &form, setting).await).await,
        QueueCommand::Backfill(arguments) => backfill::run(arguments, &database).await,
    }
}

/// Sets or shows a setting of queues.
async fn set(client: &Client, form: &Form, setting: SettingCommand) -> Result<Answer, Failure> {
    match setting {
        SettingCommand::Pause(arguments) => pause::pause(client, form, arguments).await,
        SettingCommand::Resume(arguments) => pause::resume(client, form, arguments).await,
        SettingCommand::Hold(arguments) => pause::hold(client, form, arguments).await,
        SettingCommand::Limit(arguments) => set::limit(client, form, arguments).await,
        SettingCommand::MaxWaiting(arguments) => set::max_waiting(client, form, arguments).await,
        SettingCommand::Rate(arguments) => set::rate(client, form, arguments).await,
        SettingCommand::Retention(arguments) => set::retention(client, form, arguments).await,
        SettingCommand::Remove(arguments) => pause::remove(client, form, arguments).await,
    }
}
