//! `uniqueue doctor`.

mod args;
mod text;

use serde::Serialize;
use uniqueue::Places;
use uniqueue_admin::{Admin, Diagnosis, Finding, Severity, diagnose_places};

use crate::database::ask_each_unchecked;
use crate::exit::{Failure, Verdict};
use crate::{output, places};

pub(crate) use self::args::DoctorArguments;

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
            let text = || if remedies { text::remedies(&diagnosis) } else { text::report(&diagnosis) };
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
        output::print(&text::across(&findings))?;
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
