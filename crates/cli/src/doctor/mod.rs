//! `uniqueue doctor`.

mod args;
mod text;

pub(crate) use self::args::DoctorArguments;

use serde::Serialize;
use uniqueue::{Diagnosis, Finding, Places, Severity};

use crate::database::Database;
use crate::failure::Failure;
use crate::output;
use crate::verdict::Verdict;

/// Diagnoses a queue and prints the findings.
pub(crate) async fn run(arguments: DoctorArguments) -> Result<Verdict, Failure> {
    let database = Database::open(&arguments.database, 2).await?;
    let diagnosis = database.client.diagnose().thresholds(arguments.thresholds()).timeout(arguments.timeout.0).await?;
    database.close().await?;
    let worst = diagnosis.worst();
    if arguments.database.json {
        output::print_json(&Report { worst, healthy: diagnosis.is_healthy(), diagnosis: &diagnosis })?;
    } else if arguments.remedies {
        output::print(&text::remedies(&diagnosis))?;
    } else {
        output::print(&text::report(&diagnosis))?;
    }
    Ok(match worst {
        worst if !arguments.fail_on.is_met_by(worst) && !diagnosis.sees_queue => Verdict::Unseen,
        worst if !arguments.fail_on.is_met_by(worst) => Verdict::Fine,
        Severity::Critical => Verdict::Critical,
        _ => Verdict::NotFine,
    })
}

/// Compares all places with each other, and prints the findings below those of each place.
pub(crate) async fn across(arguments: DoctorArguments, places: Places) -> Result<Verdict, Failure> {
    let findings = places.diagnose().await;
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
    if arguments.database.json {
        output::print_json_line(&Across { place: None, worst, findings: &findings })?;
    } else {
        output::print(&text::across(&findings))?;
    }
    Ok(match worst {
        worst if !arguments.fail_on.is_met_by(worst) => Verdict::Fine,
        Severity::Critical => Verdict::Critical,
        _ => Verdict::NotFine,
    })
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
