//! `uniqueue bench`: how fast the queue is, in times of what the database itself can do.
//!
//! ```text
//! args ─▶ plan (workload → comparison) ─▶ comparison: rounds of runs ─▶ summary ─▶ report, tables
//!    └──▶ sweep (points → comparisons) ────────┘        ├─ library/: a client and runners
//! plot ◀─ JSON lines of a sweep (point)                 └─ sql/: SQL on our table, and on a plain one
//! ```
//!
//! All sides of a comparison find the same jobs, have as many connections and are metered alike.

mod args;
mod comparison;
mod counter;
mod cpu;
mod delays;
mod end_to_end;
mod facts;
mod failures;
mod fill;
mod insert;
mod job;
mod latency;
mod library;
mod meter;
mod plan;
mod plans;
mod plot;
mod point;
mod profiler;
mod progress;
mod report;
mod rounded;
mod run;
mod scheduled;
mod schema;
mod sql;
mod statement;
mod summary;
mod sweep;
mod table_size;
mod tables;
mod tasks;
mod test_database;
mod work;
mod workload;

use std::time::Duration;

use clap::ValueEnum;
use tokio_util::sync::CancellationToken;
use uniqueue::shutdown_signal;

pub(crate) use self::args::BenchArguments;
use self::failures::interrupted;
pub(crate) use self::library::processes::{BenchRunnerArguments, run_process as run_bench_runner};
use self::progress::Progress;
use self::report::Line;
use self::test_database::TestDatabase;
use self::workload::Workload;
use crate::failure::Failure;
use crate::output;
use crate::verdict::Verdict;

/// How long a run may take to end after an interrupt, before the bench drops it.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Measures, or draws.
pub(crate) async fn run(arguments: BenchArguments) -> Result<Verdict, Failure> {
    if let Some(file) = &arguments.plot {
        plot::run(file, &arguments.out)?;
        return Ok(Verdict::Fine);
    }
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
) -> Result<Verdict, Failure> {
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
    Ok(Verdict::Fine)
}

async fn measure_workloads(
    database: &mut TestDatabase,
    arguments: &BenchArguments,
    progress: &Progress,
) -> Result<Verdict, Failure> {
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
    Ok(if arguments.check && is_missed { Verdict::NotFine } else { Verdict::Fine })
}
