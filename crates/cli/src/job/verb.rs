//! Each change of jobs, with its arguments.

use uniqueue_admin::JobVerb;

use super::change::{self, ChangeArguments};
use crate::prelude::*;

#[derive(Debug, Subcommand)]
pub(super) enum VerbCommand {
    /// Make failed jobs available at once.
    ///
    /// A filter selects retryable and discarded jobs. With --state it can also select scheduled, completed and cancelled jobs.
    /// Each job gets at least one more attempt. A job whose unique key another job holds now goes on without its claim, or is
    /// discarded if its policy says so. A job whose parents have not all ended as it asks is pending. So are the jobs that were
    /// cancelled because of it.
    ///
    /// Examples:
    ///   uniqueue job retry 019abc12-3456-7def-8a12-3456789abcde
    ///   uniqueue job retry --graph --dry-run 019abc12-3456-7def-8a12-3456789abcde
    ///   uniqueue job retry --kind email.send --dry-run
    ///   uniqueue job retry --state discarded --finalized-after 2h --yes
    #[command(verbatim_doc_comment)]
    Retry {
        /// Resume the graphs of the given jobs: retry the discarded and cancelled jobs among these, those that run after them, and
        /// those that these run after. Completed jobs stay. Counts them and asks first
        #[arg(long, requires = "ids")]
        graph: bool,

        #[command(flatten)]
        change: ChangeArguments,
    },

    /// Cancel jobs that are not final.
    ///
    /// A running job is cancelled at once: its worker is notified, and the worker's result is dropped. With --graph all jobs
    /// that run after the given ones are cancelled too, whatever their conditions, in one transaction.
    ///
    /// Examples:
    ///   uniqueue job cancel 019abc12-3456-7def-8a12-3456789abcde
    ///   uniqueue job cancel --graph 019abc12-3456-7def-8a12-3456789abcde
    ///   uniqueue job cancel --queue imports --state available,scheduled --dry-run
    ///   uniqueue job cancel --kind report.build --args '{"tenant": 7}' --yes
    #[command(verbatim_doc_comment)]
    Cancel {
        /// Also cancel the jobs that run after the given ones, directly or through other jobs. Counts them and asks first
        #[arg(long, requires = "ids")]
        graph: bool,

        #[command(flatten)]
        change: ChangeArguments,
    },

    /// Discard jobs that are not final, as jobs that failed for good.
    ///
    /// Each gets an error with the code by_operator. A running job is discarded at once, and its worker's result is dropped.
    ///
    /// Examples:
    ///   uniqueue job discard 019abc12-3456-7def-8a12-3456789abcde
    ///   uniqueue job discard --kind report.build --state retryable --dry-run
    #[command(verbatim_doc_comment)]
    Discard(ChangeArguments),

    /// Delete jobs that are not running.
    ///
    /// Their unique keys are free again. A filter selects jobs in every state but running, unless --state is given.
    ///
    /// Examples:
    ///   uniqueue job delete 019abc12-3456-7def-8a12-3456789abcde
    ///   uniqueue job delete --state completed --finalized-before 7d --dry-run
    ///   uniqueue job delete --queue experiments --yes
    #[command(verbatim_doc_comment)]
    Delete(ChangeArguments),

    /// Give waiting jobs another time.
    ///
    /// It changes pending, scheduled, available and retryable jobs. A time in the past makes them available at once, but pending
    /// jobs stay pending.
    ///
    /// Examples:
    ///   uniqueue job reschedule 019abc12-3456-7def-8a12-3456789abcde --at 2026-11-22T06:00:00Z
    ///   uniqueue job reschedule --queue emails --in 30m --dry-run
    ///   uniqueue job reschedule --state retryable --kind email.send --at now --yes
    #[command(verbatim_doc_comment)]
    Reschedule {
        #[command(flatten)]
        change: ChangeArguments,

        /// The time: RFC 3339, a date, now, or relative to now (+2h)
        #[arg(
            long,
            value_name = "TIME",
            required_unless_present = "in",
            conflicts_with = "in",
            allow_hyphen_values = true
        )]
        at: Option<TimeArgument>,

        /// How long from now, such as 30m
        #[arg(long, value_name = "DURATION")]
        r#in: Option<DurationArgument>,
    },

    /// Release pending jobs.
    ///
    /// A released job becomes available, or scheduled if its time has not come.
    ///
    /// Examples:
    ///   uniqueue job release 019abc12-3456-7def-8a12-3456789abcde
    ///   uniqueue job release --queue imports --yes
    #[command(verbatim_doc_comment)]
    Release(ChangeArguments),

    /// Give waiting jobs another priority.
    ///
    /// It changes pending, scheduled, available and retryable jobs. Higher priorities run first. An insert's default is 0.
    ///
    /// Examples:
    ///   uniqueue job priority 10 019abc12-3456-7def-8a12-3456789abcde
    ///   uniqueue job priority -5 --queue imports --older-than 1d --yes
    #[command(verbatim_doc_comment)]
    Priority {
        /// The new priority, -32768 to 32767
        #[arg(value_name = "PRIORITY", allow_negative_numbers = true)]
        new_priority: i16,

        #[command(flatten)]
        change: ChangeArguments,
    },
}

impl VerbCommand {
    pub(super) async fn run(self, database: &DatabaseArguments) -> Result<Verdict, Failure> {
        let (verb, is_graph, to, arguments) = match self {
            Self::Retry { graph, change } => (JobVerb::Retry, graph, None, change),
            Self::Cancel { graph, change } => (JobVerb::Cancel, graph, None, change),
            Self::Discard(change) => (JobVerb::Discard, false, None, change),
            Self::Delete(change) => (JobVerb::Delete, false, None, change),
            Self::Release(change) => (JobVerb::Release, false, None, change),
            Self::Priority { new_priority, change } => (JobVerb::Priority(new_priority), false, None, change),
            Self::Reschedule { at, r#in, change } => {
                // clap requires one of the two options.
                let to = at.unwrap_or(TimeArgument::In(r#in.map_or(Duration::ZERO, |delay| delay.0)));
                (JobVerb::Reschedule(to.at(OffsetDateTime::now_utc())), false, Some(to), change)
            }
        };
        change::run(verb, to, is_graph, arguments, database).await
    }
}
