//! The arguments of `uniqueue doctor`.

use std::fmt;
use std::str::FromStr;

use uniqueue_admin::{Severity, Thresholds};

use crate::prelude::*;

/// Diagnose a queue: find problems, rate them, and suggest remedies.
///
/// It checks the schema, the sessions that keep the database from vacuuming, runners, queues, jobs, claims and maintenance. It
/// changes nothing. The cost of each check is bounded, whatever the size of the tables. Checks that the role has no
/// permission for are listed as skipped: the full diagnosis needs pg_monitor and read access to the queue's tables. The
/// codes of the findings stay the same from version to version.
///
/// An option with two values takes the threshold of a warning and that of a critical finding.
///
/// Examples:
///   uniqueue doctor --database-url postgres://localhost/app
///   uniqueue doctor --json | jq -r '.findings[] | [.severity, .code, .subject] | @tsv'
///   uniqueue doctor --fail-on critical --waiting 30s,5m
///   uniqueue doctor --remedies > remedies.sql
///
/// Exit codes:
///   0    no finding is worse than a notice (with --fail-on critical: worse than a warning)
///   1    the worst finding is a warning
///   3    the worst finding is critical
///   4    nothing worse than a notice was found, but the role may not see the queue
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArguments {
    /// The lowest severity for which the exit code is not 0: warning or critical
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t, hide_possible_values = true)]
    pub(super) fail_on: FailOn,

    /// Print only the remedies, as SQL with the findings as comments; read it before you run it with psql
    #[arg(long, conflicts_with = "json")]
    pub(super) remedies: bool,

    /// How long each check may take
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub(super) timeout: DurationArgument,

    /// How long a transaction that holds a snapshot, locks rows of the queue or blocks others may be open
    #[arg(long, value_name = "DURATION,DURATION", default_value = "1m,10m", help_heading = THRESHOLDS)]
    transaction: Pair<DurationArgument>,

    /// How many transactions the snapshot of a replication slot or standby may lag behind
    #[arg(long, value_name = "N,N", default_value = "1000000,10000000", help_heading = THRESHOLDS)]
    transactions_behind: Pair<u64>,

    /// How long the oldest available job of a queue may wait
    #[arg(long, value_name = "DURATION,DURATION", default_value = "5m,1h", help_heading = THRESHOLDS)]
    waiting: Pair<DurationArgument>,

    /// How long a job may be overdue, or belong to a dead runner
    #[arg(long, value_name = "DURATION,DURATION", default_value = "1m,10m", help_heading = THRESHOLDS)]
    overdue: Pair<DurationArgument>,

    /// How long a final job may stay after its retention has ended
    #[arg(long, value_name = "DURATION,DURATION", default_value = "1h,1d", help_heading = THRESHOLDS)]
    retention: Pair<DurationArgument>,

    /// The fraction of a table that may be dead rows
    #[arg(long, value_name = "FRACTION,FRACTION", default_value = "0.2,0.5", help_heading = THRESHOLDS)]
    dead_part: Pair<f64>,

    /// The number of dead rows that a table may always have
    #[arg(long, value_name = "N", default_value = "50000", help_heading = THRESHOLDS)]
    dead_rows: u64,

    /// The allowed difference between the clocks of this machine and the database
    #[arg(long, value_name = "DURATION,DURATION", default_value = "2s,1m", help_heading = THRESHOLDS)]
    clock_offset: Pair<DurationArgument>,

    /// The fraction of the server's notification queue that may be full
    #[arg(long, value_name = "FRACTION,FRACTION", default_value = "0.1,0.5", help_heading = THRESHOLDS)]
    notify_usage: Pair<f64>,

    /// How long a job may run before it is reported
    #[arg(long, value_name = "DURATION", default_value = "1h", help_heading = THRESHOLDS)]
    running: DurationArgument,

    /// How long a job may run before it is compared with others of its kind
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = THRESHOLDS)]
    slow: DurationArgument,

    /// How many times longer than 95 of 100 completed jobs of its kind a job may run
    #[arg(long, value_name = "N", default_value = "10", help_heading = THRESHOLDS)]
    slow_factor: u32,

    /// How long a key that nothing frees may be claimed before it is reported
    #[arg(long, value_name = "DURATION", default_value = "1h", help_heading = THRESHOLDS)]
    claim: DurationArgument,

    /// How many times larger than needed an index may be
    #[arg(long, value_name = "N", default_value = "3", help_heading = THRESHOLDS)]
    bloat_factor: u32,

    #[command(flatten)]
    pub(super) database: DatabaseArguments,
}

const THRESHOLDS: &str = "Thresholds";

/// The lowest severity that fails the command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(super) enum FailOn {
    /// Exit code 1 for warnings, 3 for critical findings
    #[default]
    Warning,
    /// Exit code 0 for warnings, 3 for critical findings
    Critical,
}

impl FailOn {
    pub(super) fn is_met_by(self, worst: Severity) -> bool {
        match self {
            FailOn::Warning => worst >= Severity::Warning,
            FailOn::Critical => worst >= Severity::Critical,
        }
    }

    pub(super) fn verdict(self, worst: Severity) -> Verdict {
        match worst {
            worst if !self.is_met_by(worst) => Verdict::Fine,
            Severity::Critical => Verdict::Critical,
            _ => Verdict::NotFine,
        }
    }
}

/// The thresholds of a warning and of a critical finding. With one value, no finding is critical.
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

impl Pair<DurationArgument> {
    fn critical(self) -> Option<Duration> {
        self.critical.map(|critical| critical.0)
    }
}

impl DoctorArguments {
    pub(super) fn thresholds(&self) -> Thresholds {
        Thresholds::new()
            .transaction(self.transaction.warning.0, self.transaction.critical())
            .transactions_behind(self.transactions_behind.warning, self.transactions_behind.critical)
            .waiting(self.waiting.warning.0, self.waiting.critical())
            .overdue(self.overdue.warning.0, self.overdue.critical())
            .retention(self.retention.warning.0, self.retention.critical())
            .dead_part(self.dead_part.warning, self.dead_part.critical)
            .dead_rows(self.dead_rows)
            .clock_offset(self.clock_offset.warning.0, self.clock_offset.critical())
            .notify_usage(self.notify_usage.warning, self.notify_usage.critical)
            .running(self.running.0)
            .slow(self.slow.0)
            .slow_factor(self.slow_factor)
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
    fn a_single_value_is_the_threshold_of_a_warning() {
        let line = Line::parse_from(["doctor", "--waiting", "30s", "--dead-part", "0.1, 0.2"]);
        assert_eq!((line.doctor.waiting.warning.0, line.doctor.waiting.critical()), (Duration::from_secs(30), None));
        assert_eq!(line.doctor.dead_part, Pair { warning: 0.1, critical: Some(0.2) });
        assert!(Line::try_parse_from(["doctor", "--waiting", "soon"]).is_err());
    }
}
