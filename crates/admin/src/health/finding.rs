//! The result of a diagnosis.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uniqueue::SchemaName;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
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

/// A problem and its remedy.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Its code, such as `queue_late`, which stays the same from version to version: for alerts and scripts.
    /// docs/operate/doctor.md explains each code and its limits.
    pub code: String,
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
        code: &str,
        severity: Severity,
        subject: impl Into<String>,
        seen: impl Into<String>,
        remedy: Remedy,
    ) -> Self {
        Self { code: code.to_owned(), severity, subject: subject.into(), seen: seen.into(), remedy, facts: Map::new() }
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
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
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

/// The result of [`Admin::diagnose`](crate::Admin::diagnose).
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
    pub checks: Vec<String>,
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
        let mut parts = Vec::new();
        for (severity, one, many) in [
            (Severity::Critical, "critical", "critical"),
            (Severity::Warning, "warning", "warnings"),
            (Severity::Notice, "notice", "notices"),
        ] {
            let found = self.findings.iter().filter(|finding| finding.severity == severity).count();
            if found > 0 {
                parts.push(format!("{found} {}", if found == 1 { one } else { many }));
            }
        }
        let found = if parts.is_empty() { "nothing found".to_owned() } else { parts.join(", ") };
        if !self.sees_queue {
            write!(f, "not checked: role {} may not see the queue; ", self.role)?;
        }
        let checks = self.checks.len();
        write!(f, "{}: {found}; {checks} check{}", self.worst(), if checks == 1 { "" } else { "s" })?;
        match self.skipped.len() {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} skipped"),
        }
    }
}
