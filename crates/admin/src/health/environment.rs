//! What only a client sees: its clock, a pooler, and a database that can have no queue.

use std::time::Duration;

use serde::Deserialize;
use time::OffsetDateTime;
use uniqueue::Pooling;

use super::finding::{Finding, Remedy, Severity};
use super::thresholds::Thresholds;

/// This session, as the database sees it.
#[derive(Debug, Deserialize)]
pub(super) struct Itself {
    pub(super) role: String,
    pub(super) database: String,
    pub(super) encoding: String,
    pub(super) version: String,
    pub(super) has_schema: bool,
    pub(super) may_use: bool,
    pub(super) sees_sessions: bool,
    /// How many sessions have statements that are hidden from this role.
    pub(super) hidden_sessions: u64,
    pub(super) is_standby: bool,
    /// The database's clock, in seconds since 1970.
    pub(super) clock: f64,
}

/// The client sent the query at `asked_at` by its own clock, and had the result after `took`.
pub(super) fn clock_offset(
    clock: f64,
    asked_at: OffsetDateTime,
    took: Duration,
    limits: &Thresholds,
) -> Option<Finding> {
    let took = took.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds do not matter here")]
    let asked_at = asked_at.unix_timestamp_nanos() as f64 / 1e9;
    // The database read its clock some time in between, so only a larger difference counts.
    let ahead = asked_at - clock;
    let behind = clock - (asked_at + took);
    let apart = ahead.max(behind).max(0.0);
    let [warning, critical] = limits.clock_offset_limits();
    let severity = match apart {
        apart if apart >= critical => Severity::Critical,
        apart if apart >= warning => Severity::Warning,
        _ => return None,
    };
    let way = if ahead > behind { "ahead of" } else { "behind" };
    Some(Finding::new(
        "clock_offset",
        severity,
        "the clock of this machine",
        format!("it is {:.1} s {way} the database's", apart),
        Remedy::advice(
            "Let NTP set it. The database's clock decides when jobs run and claims end. Times that this machine \
             gives, such as scheduled_at, are wrong by as much",
        )
        .command("chronyc tracking || timedatectl timesync-status"),
    ))
}

pub(super) fn encoding(itself: &Itself) -> Option<Finding> {
    (itself.encoding != "UTF8").then(|| {
        Finding::new(
            "encoding",
            Severity::Critical,
            format!("database {}", itself.database),
            format!("its encoding is {}, and the queue needs UTF8", itself.encoding),
            Remedy::advice("Make another database, and move the queue there")
                .command("createdb --encoding UTF8 --template template0 NAME"),
        )
    })
}

pub(super) fn standby(itself: &Itself) -> Option<Finding> {
    itself.is_standby.then(|| {
        Finding::new(
            "standby",
            Severity::Warning,
            format!("database {}", itself.database),
            "it is a standby: no job can be inserted or worked here, and its data is as old as its replay",
            Remedy::advice(
                "Give the primary's URL; psql and sqlx take several hosts with target_session_attrs=read-write",
            ),
        )
    })
}

pub(super) fn pooler(pooling: Pooling) -> Option<Finding> {
    let subject = "the connection to the database";
    let pooler = "a pooler gives each transaction another session";
    match pooling {
        Pooling::Direct => None,
        Pooling::KeepsApart => Some(Finding::new(
            "pooler",
            Severity::Notice,
            subject,
            format!("{pooler}, and keeps prepared statements apart: no notification arrives through it"),
            Remedy::advice("Runners need .poll_only() through it, or a direct connection. Inserts need nothing"),
        )),
        Pooling::MixesUp => Some(Finding::new(
            "pooler",
            Severity::Critical,
            subject,
            format!("{pooler}, and mixes up the prepared statements of its clients"),
            Remedy::advice(
                "Upgrade PgBouncer to 1.21 or newer with max_prepared_statements = 200, or use its session mode, or \
                 connect directly",
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_more_than_the_round_trip_counts_as_a_clock_that_is_off() {
        let asked_at = OffsetDateTime::from_unix_timestamp(1_000_000).unwrap();
        let offset = |clock, took| {
            clock_offset(clock, asked_at, Duration::from_secs(took), &Thresholds::new())
                .map(|finding| (finding.severity, finding.seen))
        };
        assert_eq!(offset(1_000_009.0, 10), None);
        assert_eq!(offset(1_000_001.0, 0), None);
        let behind = (Severity::Warning, "it is 3.0 s behind the database's".to_owned());
        assert_eq!(offset(1_000_013.0, 10), Some(behind));
        let ahead = (Severity::Critical, "it is 100.0 s ahead of the database's".to_owned());
        assert_eq!(offset(999_900.0, 10), Some(ahead));
    }
}
