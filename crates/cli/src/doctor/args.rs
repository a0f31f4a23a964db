//! What `uniqueue doctor` takes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use uniqueue::{Limit, Severity, Thresholds};

use crate::args::QueueArguments;
use crate::output::Span;

/// Look for what is wrong with a queue, how bad it is, and what helps.
///
/// It looks at the schema, at who keeps the database from cleaning up, at runners, queues, jobs, claims and maintenance,
/// and changes nothing. Each check is one bounded question, whatever the size of the tables. What the role may not see is
/// listed as skipped: a member of pg_monitor who may read the queue's tables sees all of it. The codes of the
/// findings stay the same from version to version; docs/doctor.md explains each.
///
/// An option with two values takes those of a warning and of a critical finding.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArguments {
    /// From which severity on the exit code is not 0
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t)]
    pub(super) fail_on: FailOn,

    /// Print only the remedies, as SQL with the findings as comments: to read, and then to run with psql
    #[arg(long, conflicts_with = "json")]
    pub(super) remedies: bool,

    /// How long each check may take
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(super) timeout: Span,

    /// How long a transaction may be open that holds a snapshot or the queue's rows, or keeps others waiting
    #[arg(long, value_name = "TIME,TIME", default_value = "1m,10m", help_heading = LIMITS)]
    transaction: Pair<Span>,

    /// How many transactions the snapshot of a replication slot or a standby may be behind
    #[arg(long, value_name = "N,N", default_value = "1000000,10000000", help_heading = LIMITS)]
    transactions_behind: Pair<u64>,

    /// How long the oldest available job of a queue may wait
    #[arg(long, value_name = "TIME,TIME", default_value = "5m,1h", help_heading = LIMITS)]
    waiting: Pair<Span>,

    /// How long a job may be due, or in the hands of a dead runner
    #[arg(long, value_name = "TIME,TIME", default_value = "1m,10m", help_heading = LIMITS)]
    overdue: Pair<Span>,

    /// How long a final job may stay after its retention
    #[arg(long, value_name = "TIME,TIME", default_value = "1h,1d", help_heading = LIMITS)]
    retention: Pair<Span>,

    /// Which part of a table may be dead rows
    #[arg(long, value_name = "PART,PART", default_value = "0.2,0.5", help_heading = LIMITS)]
    dead_part: Pair<f64>,

    /// How many dead rows nobody minds
    #[arg(long, value_name = "N", default_value = "50000", help_heading = LIMITS)]
    dead_rows: u64,

    /// How far the clocks of this machine and the database may be apart
    #[arg(long, value_name = "TIME,TIME", default_value = "2s,1m", help_heading = LIMITS)]
    clock_offset: Pair<Span>,

    /// How full the server's queue of notifications may be
    #[arg(long, value_name = "PART,PART", default_value = "0.1,0.5", help_heading = LIMITS)]
    notify_usage: Pair<f64>,

    /// From when on a running job is named
    #[arg(long, value_name = "TIME", default_value = "1h", help_heading = LIMITS)]
    running: Span,

    /// From when on a key is named that nothing will free
    #[arg(long, value_name = "TIME", default_value = "1h", help_heading = LIMITS)]
    claim: Span,

    /// How many times the pages that it needs an index may hold
    #[arg(long, value_name = "N", default_value = "3", help_heading = LIMITS)]
    bloat_factor: u32,

    #[command(flatten)]
    pub(super) queue: QueueArguments,
}

const LIMITS: &str = "From when on something is wrong";

const EXAMPLES: &str = "\
Examples:
  uniqueue doctor --database-url postgres://localhost/app
  uniqueue doctor --json | jq -r '.findings[] | [.severity, .code, .subject] | @tsv'
  uniqueue doctor --fail-on critical --waiting 30s,5m
  uniqueue doctor --remedies > remedies.sql

Exit codes:
  0    nothing was found that is worse than a notice (with --fail-on critical: than a warning)
  1    the worst that was found is a warning
  2    a wrong command line, or the database does not answer
  3    something critical was found
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// From which severity on a diagnosis is not fine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(super) enum FailOn {
    /// Exit code 1 for warnings, 3 for what is critical
    #[default]
    Warning,
    /// Exit code 3 for what is critical, 0 for warnings
    Critical,
}

impl FailOn {
    pub(super) fn is_met_by(self, worst: Severity) -> bool {
        match self {
            FailOn::Warning => worst >= Severity::Warning,
            FailOn::Critical => worst >= Severity::Critical,
        }
    }
}

/// Two values, for a warning and for a critical finding; one alone is that of a warning, and nothing is critical.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair<T> {
    warning: T,
    critical: Option<T>,
}

impl<T: FromStr<Err: fmt::Display> + Copy> FromStr for Pair<T> {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let read = |text: &str| text.trim().parse::<T>().map_err(|error| error.to_string());
        match given.split_once(',') {
            None => Ok(Self { warning: read(given)?, critical: None }),
            Some((warning, critical)) => Ok(Self { warning: read(warning)?, critical: Some(read(critical)?) }),
        }
    }
}

impl Pair<Span> {
    fn limit(self) -> Limit<Duration> {
        Limit::new(self.warning.0, self.critical.map_or(Duration::MAX, |critical| critical.0))
    }
}

impl Pair<f64> {
    fn limit(self) -> Limit<f64> {
        Limit::new(self.warning, self.critical.unwrap_or(f64::INFINITY))
    }
}

impl Pair<u64> {
    fn limit(self) -> Limit<u64> {
        Limit::new(self.warning, self.critical.unwrap_or(u64::MAX))
    }
}

impl DoctorArguments {
    pub(super) fn thresholds(&self) -> Thresholds {
        Thresholds::new()
            .transaction(self.transaction.limit())
            .transactions_behind(self.transactions_behind.limit())
            .waiting(self.waiting.limit())
            .overdue(self.overdue.limit())
            .retention(self.retention.limit())
            .dead_part(self.dead_part.limit())
            .dead_rows(self.dead_rows)
            .clock_offset(self.clock_offset.limit())
            .notify_usage(self.notify_usage.limit())
            .running(self.running.0)
            .claim(self.claim.0)
            .bloat_factor(self.bloat_factor)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        doctor: DoctorArguments,
    }

    #[test]
    fn options_left_out_are_the_thresholds_of_the_library() {
        let line = Line::parse_from(["doctor"]);
        assert_eq!(line.doctor.thresholds(), Thresholds::new());
    }

    #[test]
    fn one_value_is_that_of_a_warning() {
        let line = Line::parse_from(["doctor", "--waiting", "30s", "--dead-part", "0.1, 0.2"]);
        let expected = Thresholds::new()
            .waiting(Limit::new(Duration::from_secs(30), Duration::MAX))
            .dead_part(Limit::new(0.1, 0.2));
        assert_eq!(line.doctor.thresholds(), expected);
        assert!(Line::try_parse_from(["doctor", "--waiting", "soon"]).is_err());
    }
}
