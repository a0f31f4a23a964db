//! A diagnosis for people.

use uniqueue::{Diagnosis, Finding, Severity, SkippedCheck};

use crate::output::{Style, paint, plain};

/// How much of a remedy's SQL is shown; the body of a function is longer than anybody reads here.
const SQL_LINES: usize = 8;

pub(super) fn report(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for finding in &diagnosis.findings {
        text.push_str(&of_finding(finding));
        text.push('\n');
    }
    for SkippedCheck { check, why, remedy, .. } in &diagnosis.skipped {
        text.push_str(&format!("{}: {}: {}\n", paint(Style::Warn, "skipped"), check, plain(why)));
        if let Some(remedy) = remedy {
            text.push_str(&format!("  {}\n", plain(remedy)));
        }
    }
    if !diagnosis.skipped.is_empty() {
        text.push('\n');
    }
    let verdict = diagnosis.to_string();
    text.push_str(&format!(
        "{} (schema {}, database {}, PostgreSQL {})\n",
        paint(style(diagnosis.worst()), &verdict),
        diagnosis.schema,
        plain(&diagnosis.database),
        // Debian's version goes on.
        plain(diagnosis.server_version.split(' ').next().unwrap_or_default())
    ));
    text
}

fn of_finding(finding: &Finding) -> String {
    let Finding { code, severity, subject, seen, remedy, .. } = finding;
    let mut text = format!(
        "{}  {}  {}\n  {}\n  {}.\n",
        paint(style(*severity), severity.as_str()),
        paint(Style::Strong, code.as_str()),
        plain(subject),
        plain(seen),
        plain(&remedy.advice)
    );
    if let Some(command) = &remedy.command {
        text.push_str(&format!("    $ {}\n", plain(command)));
    }
    if let Some(sql) = &remedy.sql {
        for line in sql.lines().take(SQL_LINES) {
            text.push_str(&format!("    {}\n", plain(line)));
        }
        let more = sql.lines().count().saturating_sub(SQL_LINES);
        if more > 0 {
            let note = format!("-- and {more} lines more: uniqueue doctor --remedies");
            text.push_str(&format!("    {}\n", paint(Style::Faint, &note)));
        }
    }
    text
}

/// Every remedy as a script for psql.
pub(super) fn remedies(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for Finding { code, severity, subject, seen, remedy, .. } in &diagnosis.findings {
        text.push_str(&format!("-- {severity} {code}: {}: {}\n", plain(subject), plain(seen)));
        text.push_str(&format!("-- {}.\n", plain(&remedy.advice)));
        if let Some(command) = &remedy.command {
            text.push_str(&format!("-- $ {}\n", plain(command)));
        }
        if let Some(sql) = &remedy.sql {
            text.push_str(sql);
            text.push('\n');
        }
        text.push('\n');
    }
    text.push_str(&format!("-- {diagnosis}\n"));
    text
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Ok => Style::Good,
        Severity::Critical => Style::Bad,
        Severity::Warning => Style::Warn,
        _ => Style::Plain,
    }
}
