//! `uniqueue doctor`.

mod args;

use uniqueue::Places;
use uniqueue_admin::{Diagnosis, Finding, Severity, SkippedCheck, diagnose_places};

pub(crate) use self::args::DoctorArguments;
use crate::database::ask_each_unchecked;
use crate::output::{paint, width, wrap};
use crate::places;
use crate::prelude::*;

/// Diagnoses a queue, or each place and then all of them together, and prints the findings.
pub(crate) async fn run(arguments: DoctorArguments) -> Result<Verdict, Failure> {
    let all = places::all();
    if arguments.remedies && all.is_some() {
        return Err(Failure::refused("--remedies works in one place at a time", "name it with --place"));
    }
    let (remedies, fail_on) = (arguments.remedies, arguments.fail_on);
    let diagnosed = ask_each_unchecked(&arguments.database, |client, form| {
        let (thresholds, timeout) = (arguments.thresholds(), arguments.timeout.0);
        async move {
            let diagnosis = Admin::new(&client).diagnose().thresholds(thresholds).timeout(timeout).await?;
            let worst = diagnosis.worst();
            let report = Report { worst, healthy: diagnosis.is_healthy(), diagnosis: &diagnosis };
            let text = || if remedies { remedies_text(&diagnosis) } else { text(&diagnosis) };
            Ok(form.object(&report, |_| text())?.verdict(match worst {
                worst if !fail_on.is_met_by(worst) && !diagnosis.sees_queue => Verdict::Unseen,
                worst => fail_on.verdict(worst),
            }))
        }
    });
    let diagnosed = diagnosed.await?;
    match all {
        Some(places) => Ok(diagnosed.max(across(&arguments, places).await?)),
        None => Ok(diagnosed),
    }
}

/// Compares all places with each other, and prints the findings below those of each place.
async fn across(arguments: &DoctorArguments, places: &Places) -> Result<Verdict, Failure> {
    let findings = diagnose_places(places).await;
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
    if arguments.database.json {
        output::print_json_line(&Across { place: None, worst, findings: &findings })?;
    } else {
        output::print(&across_text(&findings))?;
    }
    Ok(arguments.fail_on.verdict(worst))
}

/// The last line with --json, over several places.
#[derive(Serialize)]
struct Across<'a> {
    /// Always null: the findings are about several places.
    place: Option<&'a str>,
    worst: Severity,
    findings: &'a [Finding],
}

/// The output with --json.
#[derive(Serialize)]
struct Report<'a> {
    worst: Severity,
    healthy: bool,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
}

/// Stands before each line below the first of a finding.
const INDENT: &str = "  ";

/// How many lines of a remedy's SQL are shown. The body of a function can be long.
const SQL_LINES: usize = 8;

fn text(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for finding in &diagnosis.findings {
        text.push_str(&of_finding(finding));
        text.push('\n');
    }
    for SkippedCheck { check, why, remedy, .. } in &diagnosis.skipped {
        text.push_str(&format!("{}: {check}\n{}", paint(Style::Warn, "skipped"), paragraph(why)));
        if let Some(remedy) = remedy {
            text.push_str(&paragraph(remedy));
        }
    }
    if !diagnosis.skipped.is_empty() {
        text.push('\n');
    }
    let verdict = diagnosis.to_string();
    let painted = paint(if diagnosis.sees_queue { style(diagnosis.worst()) } else { Style::Warn }, &verdict);
    let line = format!(
        "{verdict} (schema {}, database {}, PostgreSQL {})",
        diagnosis.schema,
        printable(&diagnosis.database),
        // Debian appends its own version.
        printable(diagnosis.server_version.split(' ').next().unwrap_or_default())
    );
    for line in wrap(&line, width()) {
        text.push_str(line.replacen(&verdict, &painted, 1).trim_end());
        text.push('\n');
    }
    text
}

/// The findings about places together.
fn across_text(findings: &[Finding]) -> String {
    let mut text = "\nall places\n".to_owned();
    for finding in findings {
        text.push_str(&of_finding(finding));
    }
    if findings.is_empty() {
        text.push_str(&format!("{}: nothing differs\n", paint(Style::Good, Severity::Ok.as_str())));
    }
    text
}

fn of_finding(finding: &Finding) -> String {
    let Finding { code, severity, subject, seen, remedy, .. } = finding;
    let mut text = format!(
        "{}  {}  {}\n{}{}",
        paint(style(*severity), severity.as_str()),
        paint(Style::Strong, code.as_str()),
        printable(subject),
        paragraph(seen),
        paragraph(&format!("{}.", remedy.advice))
    );
    if let Some(command) = &remedy.command {
        text.push_str(&format!("    $ {}\n", printable(command)));
    }
    if let Some(sql) = &remedy.sql {
        for line in sql.lines().take(SQL_LINES) {
            text.push_str(&format!("    {}\n", printable(line)));
        }
        let more = sql.lines().count().saturating_sub(SQL_LINES);
        if more > 0 {
            let note = format!("-- {more} more lines: uniqueue doctor --remedies");
            text.push_str(&format!("    {}\n", paint(Style::Faint, &note)));
        }
    }
    text
}

/// An indented text. On a terminal its lines end after words. SQL and commands are not wrapped, so that they can be copied.
fn paragraph(text: &str) -> String {
    let text = printable(text);
    let width = width().map(|width| width.saturating_sub(INDENT.len()));
    wrap(&text, width).into_iter().map(|line| format!("{INDENT}{}\n", line.trim_end())).collect()
}

/// All remedies as a script for psql.
fn remedies_text(diagnosis: &Diagnosis) -> String {
    let mut text: String = diagnosis.findings.iter().map(remedy).collect();
    text.push_str(&format!("-- {diagnosis}\n"));
    text
}

fn remedy(finding: &Finding) -> String {
    let Finding { code, severity, subject, seen, remedy, .. } = finding;
    let mut text = format!("-- {severity} {code}: {}: {}\n", printable(subject), printable(seen));
    text.push_str(&format!("-- {}.\n", printable(&remedy.advice)));
    if let Some(command) = &remedy.command {
        text.push_str(&format!("-- $ {}\n", printable(command)));
    }
    if let Some(sql) = &remedy.sql {
        text.push_str(sql);
        text.push('\n');
    }
    text.push('\n');
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
