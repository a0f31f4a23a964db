//! The findings of `diagnose`: each condition is produced, and each remedy is run as it is printed.

mod database;
mod drift;
mod environment;
mod periodic;
mod sessions;
mod work;

use support::prelude::*;
use uniqueue_admin::{Diagnosis, Finding, Severity, Thresholds};

const GUIDE: &str = include_str!("../../../docs/operate/doctor.md");

const NEVER: Duration = Duration::from_secs(100 * 86_400);

/// Everything that is there at all is worth a warning.
fn at_once() -> Thresholds {
    let any = Duration::ZERO;
    Thresholds::new()
        .transaction(any, NEVER)
        .waiting(any, NEVER)
        .overdue(any, NEVER)
        .retention(any, NEVER)
        .dead_rows(10)
}

async fn diagnose(database: &Database, thresholds: Thresholds) -> Diagnosis {
    Admin::new(&database.client).diagnose().thresholds(thresholds).await.unwrap()
}

/// The finding of a code about a subject, if there is one.
async fn seek(database: &Database, thresholds: Thresholds, code: &str, subject: &str) -> Option<Finding> {
    let diagnosis = diagnose(database, thresholds.clone()).await;
    diagnosis.findings.into_iter().find(|finding| finding.code == code && finding.subject.contains(subject))
}

/// The same, which must be there within a while: some of what is seen are statistics, which come late.
async fn find(database: &Database, thresholds: Thresholds, code: &str, severity: Severity, subject: &str) -> Finding {
    let found = eventually!(
        let found = seek(database, thresholds.clone(), code, subject).await;
        found.is_some(), "no {code} about {subject}: {:#?}", diagnose(database, thresholds.clone()).await
    );
    let finding = found.unwrap();
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert!(!finding.seen.is_empty() && !finding.remedy.advice.is_empty(), "{finding:?}");
    assert!(GUIDE.contains(&format!("\n| `{code}` | ")), "the guide does not name {code}");
    finding
}

/// Waits until it is found no more.
async fn gone(database: &Database, thresholds: Thresholds, code: &str, subject: &str) {
    eventually!(
        let found = seek(database, thresholds.clone(), code, subject).await;
        found.is_none(), "still there: {found:?}"
    );
}

/// Runs SQL as psql does: one statement after another, each by itself.
async fn paste(database: &Database, sql: &str) {
    let mut connection = database.pool().acquire().await.unwrap();
    for statement in statements(sql) {
        let result = sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(&mut *connection).await;
        result.unwrap_or_else(|error| panic!("{error}: {statement}"));
    }
    // No other session has its search_path.
    let _ = connection.detach();
}

/// Splits where a line ends a statement, outside of function bodies.
fn statements(sql: &str) -> Vec<String> {
    let mut whole = vec![String::new()];
    for line in sql.lines() {
        let last = whole.last_mut().unwrap();
        last.push_str(line);
        last.push('\n');
        if line.ends_with(';') && last.matches("$$").count() % 2 == 0 {
            whole.push(String::new());
        }
    }
    whole.retain(|statement| !statement.trim().is_empty());
    whole
}
