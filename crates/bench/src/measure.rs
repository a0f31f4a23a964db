//! Measuring the workloads or the points of a sweep that were asked for.

use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use tokio_util::sync::CancellationToken;
use uniqueue::shutdown_signal;

use crate::args::BenchArguments;
use crate::failure::Failure;
use crate::failures::interrupted;
use crate::progress::Progress;
use crate::report::Line;
use crate::test_database::TestDatabase;
use crate::workload::Workload;
use crate::{output, plan, point, tables};

/// How long a run may take to end after an interrupt, before the bench drops it.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Measures.
pub(crate) async fn run(arguments: BenchArguments) -> Result<ExitCode, Failure> {
    let interrupt = CancellationToken::new();
    let watch = interrupt.clone();
    tokio::spawn(async move {
        shutdown_signal().await;
        watch.cancel();
    });
    let progress = Progress::new();
    progress.begin("preparing");
    let mut database = TestDatabase::open(&arguments, interrupt.clone()).await?;
    let timed_out = async {
        interrupt.cancelled().await;
        tokio::time::sleep(INTERRUPT_TIMEOUT).await;
    };
    let measured = tokio::select! {
        measured = measure(&mut database, &arguments, &progress) => measured,
        () = timed_out => Err(interrupted()),
    };
    progress.finish();
    match (measured, database.close().await) {
        // The schema may still be there.
        (Ok(_) | Err(Failure::Interrupted { .. }), Err(failure)) => Err(failure),
        (measured, _) => measured,
    }
}

async fn measure(
    database: &mut TestDatabase,
    arguments: &BenchArguments,
    progress: &Progress,
) -> Result<ExitCode, Failure> {
    if database.interrupt.is_cancelled() {
        return Err(interrupted());
    }
    if !arguments.json {
        progress.suspend(|| {
            database
                .facts
                .warnings()
                .iter()
                .for_each(|warning| output::print_to_stderr(&format!("warning: {warning}")));
            output::print(&database.facts.text())
        })?;
    }
    if arguments.sweep.is_empty() {
        return measure_workloads(database, arguments, progress).await;
    }
    let mut points = Vec::new();
    for sweep in &arguments.sweep {
        let say = |point: point::Point| {
            if arguments.json {
                progress.suspend(|| output::print_json_line(&point))?;
            }
            points.push(point);
            Ok(())
        };
        sweep.run(database, arguments, progress, say).await?;
    }
    if !arguments.json {
        progress.suspend(|| output::print(&format!("\n{}\n", point::table(&points))))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure_workloads(
    database: &mut TestDatabase,
    arguments: &BenchArguments,
    progress: &Progress,
) -> Result<ExitCode, Failure> {
    let workloads = if arguments.workload.is_empty() { Workload::value_variants() } else { &arguments.workload };
    let mut lines = Vec::new();
    let mut failed = None;
    for plan in plan::plans(arguments, workloads) {
        progress.begin(plan.workload.name());
        let rounds = match plan.comparison.run(database, arguments.sizes.rounds, progress).await {
            Ok(rounds) => rounds,
            Err(failure) => {
                failed = Some(failure);
                break;
            }
        };
        let Some(line) = Line::new(&plan, &rounds, &database.facts) else { continue };
        if arguments.json {
            progress.suspend(|| output::print_json_line(&line))?;
        }
        lines.push(line);
    }
    if !arguments.json && !lines.is_empty() {
        // A failure does not spoil what was measured before it.
        progress.suspend(|| output::print(&format!("\n{}", tables::text(&lines))))?;
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    let is_missed = lines.iter().any(|line| line.check.met == Some(false));
    Ok(if arguments.check && is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
