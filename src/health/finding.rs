//! The result of a diagnosis.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::wording;
use crate::ident::SchemaName;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// No problem.
    Ok,
    /// Good to know, and perhaps intended.
    Notice,
    /// Work is delayed, or will be.
    Warning,
    /// Work has stopped, or a promise of the queue does not hold.
    Critical,
}

impl Severity {
    /// The severity in one word, as JSON has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The code of a finding, which stays the same from version to version: for alerts and scripts. docs/operate/doctor.md
        /// explains each code and its limits.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum FindingCode {
            $($(#[$doc])* $name,)*
        }

        impl FindingCode {
            /// Every code.
            pub const ALL: &[FindingCode] = &[$(FindingCode::$name),*];

            /// The code in one word, as JSON has it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(FindingCode::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The schema does not exist, or was never migrated.
    SchemaMissing = "schema_missing",
    /// Migrations have not been run.
    SchemaBehind = "schema_behind",
    /// A newer uniqueue has migrated the schema.
    SchemaNewer = "schema_newer",
    /// A table, column, constraint, view or function is missing.
    ObjectMissing = "object_missing",
    /// An object differs from the migrations.
    ObjectChanged = "object_changed",
    /// An object on the queue's tables is not the queue's.
    ObjectExtra = "object_extra",
    /// An index is missing.
    IndexMissing = "index_missing",
    /// An index is invalid, so that no query uses it.
    IndexInvalid = "index_invalid",
    /// An index holds many times the pages that it needs.
    IndexBloated = "index_bloated",
    /// Much of a table is dead rows.
    DeadRows = "dead_rows",
    /// Autovacuum is off for a table.
    AutovacuumOff = "autovacuum_off",
    /// Autovacuum is overdue for a table.
    AutovacuumLate = "autovacuum_late",
    /// An open transaction blocks other sessions, or sits idle on changed rows of the queue.
    BlockingTransaction = "blocking_transaction",
    /// A session's snapshot keeps dead rows from being cleaned up.
    OldSnapshot = "old_snapshot",
    /// A prepared transaction was not ended.
    PreparedTransaction = "prepared_transaction",
    /// A replication slot keeps dead rows from being cleaned up.
    ReplicationSlot = "replication_slot",
    /// A standby's feedback keeps dead rows from being cleaned up.
    StandbyFeedback = "standby_feedback",
    /// A live runner has missed heartbeats.
    RunnerLate = "runner_late",
    /// A runner died.
    RunnerDead = "runner_dead",
    /// Jobs wait too long in a queue with live runners.
    QueueLate = "queue_late",
    /// Jobs wait in a queue that no live runner works.
    QueueUnworked = "queue_unworked",
    /// Jobs wait in a paused queue.
    QueuePaused = "queue_paused",
    /// A queue has as many available jobs as its limit allows, so inserts are refused.
    QueueFull = "queue_full",
    /// Jobs wait in a queue that is held for more than an hour.
    QueueHeld = "queue_held",
    /// Jobs wait, and no live runner of their queue works their kind.
    KindUnknown = "kind_unknown",
    /// Live processes register a kind differently.
    KindConflict = "kind_conflict",
    /// The first job of a group has waited long for its limit, for a job that began, or for a runner of its kind.
    GroupHeld = "group_held",
    /// Jobs of a dead runner are still running.
    JobStuck = "job_stuck",
    /// Jobs have been running for a long time.
    JobLong = "job_long",
    /// Jobs have killed their runners.
    JobSuspect = "job_suspect",
    /// Many jobs have expired before they started.
    JobExpired = "job_expired",
    /// Jobs have been running for far longer than others of their kind.
    JobSlow = "job_slow",
    /// The rows of jobs cannot be read.
    JobUnreadable = "job_unreadable",
    /// Due jobs were not made available.
    JobOverdue = "job_overdue",
    /// Keys are held by jobs that will not change state by themselves.
    ClaimIdle = "claim_idle",
    /// A maintenance service is switched off.
    ServiceOff = "service_off",
    /// A maintenance service is run by no runner.
    ServiceIdle = "service_idle",
    /// A periodic job is not run.
    PeriodicProblem = "periodic_problem",
    /// Live runners define a periodic job differently.
    PeriodicConflict = "periodic_conflict",
    /// A periodic job was defined in code that no live runner has.
    PeriodicUndefined = "periodic_undefined",
    /// Final jobs are past their retention.
    RetentionLate = "retention_late",
    /// The server's queue of notifications is filling up.
    NotifyQueue = "notify_queue",
    /// A pooler gives each transaction another session.
    Pooler = "pooler",
    /// The clocks of client and database differ.
    ClockOffset = "clock_offset",
    /// The encoding of the database is not UTF8.
    Encoding = "encoding",
    /// The database is a standby.
    Standby = "standby",
    /// A place does not answer.
    PlaceDown = "place_down",
    /// A schema is not the place that the map says.
    PlaceMismatch = "place_mismatch",
    /// The schema of a place has another version than this library.
    PlaceVersion = "place_version",
    /// Places that share hashed values have different settings.
    PlaceSettings = "place_settings",
    /// A unique key is claimed in several of the places that share hashed values.
    KeyInPlaces = "key_in_places",
    /// A check timed out or failed.
    CheckFailed = "check_failed",
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for FindingCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A problem and its remedy.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Its code.
    pub code: FindingCode,
    /// Its severity.
    pub severity: Severity,
    /// Its subject: a table, a session, a runner, a queue.
    pub subject: String,
    /// The observation with its numbers, as a sentence.
    pub seen: String,
    /// Its remedy.
    pub remedy: Remedy,
    /// The observation as the database returned it. The members may change from version to version.
    pub facts: Map<String, Value>,
}

impl Finding {
    pub(super) fn new(
        code: FindingCode,
        severity: Severity,
        subject: impl Into<String>,
        seen: impl Into<String>,
        remedy: Remedy,
    ) -> Self {
        Self { code, severity, subject: subject.into(), seen: seen.into(), remedy, facts: Map::new() }
    }

    /// Adds the database's own values.
    pub(super) fn with(mut self, facts: &impl Serialize) -> Self {
        if let Ok(Value::Object(facts)) = serde_json::to_value(facts) {
            self.facts = facts;
        }
        self
    }
}

/// The remedy for a finding.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Remedy {
    /// The advice, as a sentence.
    pub advice: String,
    /// SQL that does it, to be pasted into psql. It may need more privileges than the diagnosis.
    pub sql: Option<String>,
    /// A command that does it, to be pasted into a shell.
    pub command: Option<String>,
}

impl Remedy {
    pub(super) fn advice(advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), sql: None, command: None }
    }

    pub(super) fn sql(mut self, sql: impl Into<String>) -> Self {
        self.sql = Some(sql.into());
        self
    }

    pub(super) fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }
}

/// A check that was skipped as a whole or in part.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SkippedCheck {
    /// The check.
    pub check: String,
    /// The part that it could not read, and the reason.
    pub why: String,
    /// A remedy, if there is one.
    pub remedy: Option<String>,
}

/// The result of [`Client::diagnose`](crate::Client::diagnose).
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The schema.
    #[serde(serialize_with = "as_text")]
    pub schema: SchemaName,
    /// Its database.
    pub database: String,
    /// The role of the diagnosis.
    pub role: String,
    /// The server's version.
    pub server_version: String,
    /// The time, by the database's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Whether the role may see the queue. If not, its schema, tables and work were not checked.
    pub sees_queue: bool,
    /// The problems, the worst first.
    pub findings: Vec<Finding>,
    /// The checks that were skipped, as a whole or in part.
    pub skipped: Vec<SkippedCheck>,
    /// The checks that were made.
    pub checks: Vec<&'static str>,
}

fn as_text<S: serde::Serializer>(schema: &SchemaName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(schema)
}

impl Diagnosis {
    /// The worst severity of all findings.
    #[must_use]
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
    }

    /// Whether the role may see the queue and no finding is worse than a notice. Other skipped checks do not count: see
    /// [`Diagnosis::skipped`].
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.sees_queue && self.worst() < Severity::Warning
    }
}

impl fmt::Display for Diagnosis {
    /// One line: `critical: 1 critical, 2 warnings, 1 notice; 18 checks, 1 skipped`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |severity| self.findings.iter().filter(|finding| finding.severity == severity).count() as u64;
        let mut parts = Vec::new();
        for (severity, one, many) in [
            (Severity::Critical, "critical", "critical"),
            (Severity::Warning, "warning", "warnings"),
            (Severity::Notice, "notice", "notices"),
        ] {
            let found = count(severity);
            if found > 0 {
                parts.push(wording::counted(found, one, many));
            }
        }
        let found = if parts.is_empty() { "nothing found".to_owned() } else { parts.join(", ") };
        if !self.sees_queue {
            write!(f, "not checked: role {} may not see the queue; ", self.role)?;
        }
        write!(f, "{}: {found}; {}", self.worst(), wording::counted(self.checks.len() as u64, "check", "checks"))?;
        match self.skipped.len() {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} skipped"),
        }
    }
}
