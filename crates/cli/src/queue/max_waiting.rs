//! `uniqueue queue max-waiting`.

use clap::Args;

use super::set::{Limit, note_unknown_queue, print_settings};
use crate::ask::ask;
use crate::database::DatabaseArguments;
use crate::failure::Failure;
use crate::output::count;
use crate::own_name::own_name;
use crate::verdict::Verdict;

/// Limit how many available jobs a queue may have.
///
/// An insert that would exceed the limit is refused. Available jobs are due and not started. Scheduled, retryable and pending
/// jobs do not count. Duplicates are answered as ever. Retries, releases, scheduled jobs whose time comes and periodic jobs are
/// never refused, and jobs that wait already stay.
///
/// The first limit of a schema, and removing the last one, wait up to 7 seconds for open transactions that write jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json it prints one object: {\"name\", \"paused_at\", \"limit\", \"max_waiting\", …}.

Examples:
  uniqueue queue max-waiting imports 10000
  uniqueue queue max-waiting imports none")]
pub(super) struct MaxWaitingArguments {
    /// The queue
    #[arg(value_name = "NAME")]
    name: String,

    /// The limit, at least 1; none: any number
    #[arg(value_name = "N")]
    limit: Limit,

    #[command(flatten)]
    database: DatabaseArguments,
}

/// Limits how many jobs of a queue wait.
pub(super) async fn run(arguments: MaxWaitingArguments) -> Result<Verdict, Failure> {
    let MaxWaitingArguments { name, limit: Limit(limit), database } = arguments;
    ask(&database, async |client, form| {
        let before = client.queue(&name).settings().await?;
        let settings = client.queue(&name).max_waiting(limit).actor(own_name()).await?;
        print_settings(&settings, form.json, |settings| match settings.max_waiting {
            Some(1) => "takes inserts until 1 job waits".to_owned(),
            Some(limit) => format!("takes inserts until {} jobs wait", count(u64::from(limit))),
            None => "takes inserts however many jobs wait".to_owned(),
        })?;
        note_unknown_queue(client, &before).await;
        Ok(Verdict::Fine)
    })
    .await
}
