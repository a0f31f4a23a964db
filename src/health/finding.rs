//! What a diagnosis says.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::wording;
use crate::ident::SchemaName;

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is wrong.
    Ok,
    /// Good to know; somebody may have meant it.
    Notice,
    /// Work is held up, or will be.
    Warning,
    /// Work stands still, or a promise of the queue does not hold.
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
        /// What was found, as a word that stays the same from version to version: for alerts and scripts. What each
        /// means, and from when on, is in docs/doctor.md.
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
    /// The schema is not there, or was never migrated.
    SchemaMissing = "schema_missing",
    /// Migrations have not been run.
    SchemaBehind = "schema_behind",
    /// A newer uniqueue has migrated the schema.
    SchemaNewer = "schema_newer",
    /// A table, column, constraint, view or function is missing.
    ObjectMissing = "object_missing",
    /// Something is there and is not as the migrations make it.
    ObjectChanged = "object_changed",
    /// Something on the queue's tables is not the queue's.
    ObjectExtra = "object_extra",
    /// An index is missing.
    IndexMissing = "index_missing",
    /// An index is there and no query uses it.
    IndexInvalid = "index_invalid",
    /// An index holds many times the pages that it needs.
    IndexBloated = "index_bloated",
    /// Much of a table is dead rows.
    DeadRows = "dead_rows",
    /// Autovacuum does not look after a table.
    AutovacuumOff = "autovacuum_off",
    /// Autovacuum should have come and has not.
    AutovacuumLate = "autovacuum_late",
    /// A transaction that is open keeps others waiting, or sits on the queue's rows.
    BlockingTransaction = "blocking_transaction",
    /// A session's snapshot keeps dead rows from being cleaned up.
    OldSnapshot = "old_snapshot",
    /// A transaction was prepared and left.
    PreparedTransaction = "prepared_transaction",
    /// A replication slot keeps dead rows from being cleaned up.
    ReplicationSlot = "replication_slot",
    /// A standby's feedback keeps dead rows from being cleaned up.
    StandbyFeedback = "standby_feedback",
    /// A runner lives and has missed heartbeats.
    RunnerLate = "runner_late",
    /// A runner died.
    RunnerDead = "runner_dead",
    /// Jobs wait longer than they should in a queue that is worked.
    QueueLate = "queue_late",
    /// Jobs wait in a queue that no live runner works.
    QueueUnworked = "queue_unworked",
    /// Jobs wait in a paused queue.
    QueuePaused = "queue_paused",
    /// Jobs wait whose kind no live runner of their queue works.
    KindUnknown = "kind_unknown",
    /// Jobs are running whose runner is dead.
    JobStuck = "job_stuck",
    /// Jobs have been running for long.
    JobLong = "job_long",
    /// Jobs are due and were not made available.
    JobOverdue = "job_overdue",
    /// Keys are held by jobs that nothing will move.
    ClaimIdle = "claim_idle",
    /// A maintenance service is switched off.
    ServiceOff = "service_off",
    /// A maintenance service is done by nobody.
    ServiceIdle = "service_idle",
    /// A periodic job is not run.
    PeriodicProblem = "periodic_problem",
    /// Final jobs stay longer than they should.
    RetentionLate = "retention_late",
    /// The server's queue of notifications fills up.
    NotifyQueue = "notify_queue",
    /// A pooler gives each transaction another session.
    Pooler = "pooler",
    /// The clocks of client and database differ.
    ClockOffset = "clock_offset",
    /// The database is a standby.
    Standby = "standby",
    /// A check was not answered in time, or failed.
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

/// Something that is wrong, and what helps.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub code: FindingCode,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a table, a session, a runner, a queue.
    pub subject: String,
    /// What was seen, with numbers, as a sentence.
    pub seen: String,
    /// What helps.
    pub remedy: Remedy,
    /// What was seen, as the database told it. The members may change from version to version.
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

    /// Adds what the database told.
    pub(super) fn with(mut self, facts: &impl Serialize) -> Self {
        if let Ok(Value::Object(facts)) = serde_json::to_value(facts) {
            self.facts = facts;
        }
        self
    }
}

/// What helps against a finding.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Remedy {
    /// What to do, as a sentence.
    pub advice: String,
    /// SQL that does it, to be pasted into psql. It may take another role's rights than looking did.
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

/// A check that did not look, or not at everything.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NotLookedAt {
    /// The check.
    pub check: String,
    /// What it could not see, and why.
    pub why: String,
    /// What would let it.
    pub remedy: Option<String>,
}

/// What [`Client::diagnose`](crate::Client::diagnose) found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The schema that was looked at.
    #[serde(serialize_with = "as_text")]
    pub schema: SchemaName,
    /// Its database.
    pub database: String,
    /// The role that looked.
    pub role: String,
    /// The server's version.
    pub server_version: String,
    /// When, by the database's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// What was not looked at.
    pub not_looked_at: Vec<NotLookedAt>,
    /// The checks that looked.
    pub looked_at: Vec<&'static str>,
}

fn as_text<S: serde::Serializer>(schema: &SchemaName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(schema)
}

impl Diagnosis {
    /// The worst that was found.
    #[must_use]
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
    }

    /// Whether nothing was found that is worse than a notice. A check that did not look does not count: see
    /// [`Diagnosis::not_looked_at`].
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.worst() < Severity::Warning
    }
}

impl fmt::Display for Diagnosis {
    /// One line: `critical: 1 critical, 2 warnings, 1 notice; 18 checks, 1 not looked at`.
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
        write!(f, "{}: {found}; {}", self.worst(), wording::counted(self.looked_at.len() as u64, "check", "checks"))?;
        match self.not_looked_at.len() {
            0 => Ok(()),
            missing => write!(f, ", {missing} not looked at"),
        }
    }
}
