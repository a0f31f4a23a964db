//! What can be done to jobs.

use clap::Args;
use uniqueue::{Change, Client, JobSelection, JobState, StateSet};

use super::change::ChangeArguments;
use crate::output::Moment;

/// A change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Retry,
    Cancel,
    Delete,
    Reschedule(Moment),
    Release,
    Priority(i16),
}

impl Verb {
    /// As the command is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Verb::Retry => "retry",
            Verb::Cancel => "cancel",
            Verb::Delete => "delete",
            Verb::Reschedule(_) => "reschedule",
            Verb::Release => "release",
            Verb::Priority(_) => "priority",
        }
    }

    /// As it says what it does, what it did, and asks.
    pub(super) fn words(self) -> Words {
        let [doing, done, ask, would] = match self {
            Verb::Retry => ["retrying", "retried", "Retry", "be retried"],
            Verb::Cancel => ["cancelling", "cancelled", "Cancel", "be cancelled"],
            Verb::Delete => ["deleting", "deleted", "Delete", "be deleted"],
            Verb::Reschedule(_) => ["rescheduling", "rescheduled", "Reschedule", "be rescheduled"],
            Verb::Release => ["releasing", "released", "Release", "be released"],
            Verb::Priority(_) => {
                ["changing the priority", "changed the priority of", "Change the priority of", "get another priority"]
            }
        };
        Words { doing, done, ask, would }
    }

    /// The states in which a job can be changed so.
    pub(super) fn can_change(self) -> StateSet {
        let all = StateSet::of(&JobState::ALL);
        match self {
            Verb::Retry => all.without(JobState::Available).without(JobState::Pending).without(JobState::Running),
            Verb::Cancel => all.without(JobState::Cancelled).without(JobState::Completed).without(JobState::Discarded),
            Verb::Delete => all.without(JobState::Running),
            Verb::Reschedule(_) | Verb::Priority(_) => {
                StateSet::of(&[JobState::Available, JobState::Pending, JobState::Retryable, JobState::Scheduled])
            }
            Verb::Release => JobState::Pending.into(),
        }
    }

    /// The states that are meant when a filter names none. A retry by kind is not meant to run again what is completed.
    pub(super) fn usual(self) -> StateSet {
        match self {
            Verb::Retry => StateSet::of(&[JobState::Discarded, JobState::Retryable]),
            _ => self.can_change(),
        }
    }

    /// The change itself, with times counted from the database's now.
    pub(super) async fn change<'c>(
        self,
        client: &'c Client,
        jobs: impl Into<JobSelection>,
    ) -> uniqueue::Result<Change<'c>> {
        Ok(match self {
            Verb::Retry => client.retry(jobs),
            Verb::Cancel => client.cancel(jobs),
            Verb::Delete => client.delete(jobs),
            Verb::Reschedule(moment) => client.reschedule(jobs, moment.at(client.database_time().await?)),
            Verb::Release => client.release(jobs),
            Verb::Priority(priority) => client.set_priority(jobs, priority),
        })
    }
}

/// A verb's forms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    pub(super) doing: &'static str,
    pub(super) done: &'static str,
    pub(super) ask: &'static str,
    pub(super) would: &'static str,
}

macro_rules! exit_codes {
    ($examples:literal) => {
        concat!(
            $examples,
            "

By ids nobody is asked. By a filter it says how many jobs are meant and asks first; where nobody can be asked,
it needs --yes. Jobs that are inserted later are not meant. It goes through them in batches of 1,000, oldest first, each a transaction of its own;
what somebody else keeps locked is left for the end, and then waited for.
With --json: {\"verb\", \"changed\": how many, \"discarded\": [ids], \"unchanged\": [{\"id\", \"reason\"}]}; with --dry-run:
{\"verb\", \"dry_run\": true, \"jobs\": {\"exactly\": n} or {\"at_least\": n}, \"sample\": [jobs], \"unchanged\"}.

Exit codes:
  0    every job that was named is changed; or, by a filter, every one that matched
  1    a job that was named is not there, or is in no state for it; a job was discarded instead of coming back,
       since another one holds its unique key and its policy says so; or the answer was no
  2    a wrong command line, a filter without --yes where nobody can be asked, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end; it says how far it came"
        )
    };
}

/// Make failed jobs available at once.
///
/// By a filter those that are discarded or retryable, unless --state says otherwise: cancelled, completed and scheduled
/// jobs can be retried as well. Each gets at least one more attempt. A job whose unique key another one holds by now goes
/// on without it, or is discarded where its policy says so.
#[derive(Debug, Args)]
#[command(after_help = exit_codes!("\
Examples:
  uniqueue job retry 019abc12-3456-7def-8a12-3456789abcde
  uniqueue job retry --kind email.send --dry-run
  uniqueue job retry --state discarded --finalized-after 2h --yes"))]
pub(super) struct RetryArguments {
    #[command(flatten)]
    pub(super) change: ChangeArguments,
}

/// Cancel jobs that are not over.
///
/// A running job is over for the queue at once; its worker is told, and what it says later is dropped.
#[derive(Debug, Args)]
#[command(after_help = exit_codes!("\
Examples:
  uniqueue job cancel 019abc12-3456-7def-8a12-3456789abcde
  uniqueue job cancel --queue imports --state available,scheduled --dry-run
  uniqueue job cancel --kind report.build --args '{\"tenant\": 7}' --yes"))]
pub(super) struct CancelArguments {
    #[command(flatten)]
    pub(super) change: ChangeArguments,
}

/// Delete jobs that no worker has.
///
/// Whatever they claimed is free. By a filter jobs in every state but running are meant, unless --state says otherwise.
#[derive(Debug, Args)]
#[command(after_help = exit_codes!("\
Examples:
  uniqueue job delete 019abc12-3456-7def-8a12-3456789abcde
  uniqueue job delete --state completed --finalized-before 7d --dry-run
  uniqueue job delete --queue experiments --yes"))]
pub(super) struct DeleteArguments {
    #[command(flatten)]
    pub(super) change: ChangeArguments,
}

/// Give waiting jobs another time.
///
/// Available, pending, retryable and scheduled jobs. A time that has passed makes them available at once; pending ones
/// stay pending.
#[derive(Debug, Args)]
#[command(after_help = exit_codes!("\
Examples:
  uniqueue job reschedule 019abc12-3456-7def-8a12-3456789abcde --at 2026-11-22T06:00:00Z
  uniqueue job reschedule --queue emails --in 30m --dry-run
  uniqueue job reschedule --state retryable --kind email.send --at now --yes"))]
pub(super) struct RescheduleArguments {
    #[command(flatten)]
    pub(super) change: ChangeArguments,

    /// The time: RFC 3339, a date, now, or from now on (+2h)
    #[arg(
        long,
        value_name = "TIME",
        required_unless_present = "in",
        conflicts_with = "in",
        allow_hyphen_values = true
    )]
    at: Option<Moment>,

    /// How long from now, such as 30m
    #[arg(long, value_name = "SPAN")]
    r#in: Option<crate::output::Span>,
}

impl RescheduleArguments {
    /// The time that is meant. Now, should the parser have let neither through.
    pub(super) fn at(&self) -> Moment {
        let later = self.r#in.map_or(Moment::Ago(std::time::Duration::ZERO), |span| Moment::In(span.0));
        self.at.unwrap_or(later)
    }
}

/// Let pending jobs go.
///
/// They become available, or scheduled where their time has not come.
#[derive(Debug, Args)]
#[command(after_help = exit_codes!("\
Examples:
  uniqueue job release 019abc12-3456-7def-8a12-3456789abcde
  uniqueue job release --queue imports --yes"))]
pub(super) struct ReleaseArguments {
    #[command(flatten)]
    pub(super) change: ChangeArguments,
}

/// Give waiting jobs another priority.
///
/// Available, pending, retryable and scheduled jobs. Higher runs first; 0 is the default of an insert.
#[derive(Debug, Args)]
#[command(after_help = exit_codes!("\
Examples:
  uniqueue job priority 10 019abc12-3456-7def-8a12-3456789abcde
  uniqueue job priority -5 --queue imports --older-than 1d --yes"))]
pub(super) struct PriorityArguments {
    /// The new priority, -32768 to 32767
    #[arg(value_name = "PRIORITY", allow_negative_numbers = true)]
    pub(super) new_priority: i16,

    #[command(flatten)]
    pub(super) change: ChangeArguments,
}
