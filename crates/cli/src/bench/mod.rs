//! `uniqueue bench`: how fast the queue is, in times of what the database itself can do.
//!
//! ```text
//! args ─▶ plan (workload → a pair of turns) ─▶ turn: ours, theirs, ours, theirs ─▶ medians ─▶ report
//!    └──▶ sweep (points → pairs of turns) ─────┘         └─ insert, work, latency, flow: the client
//! plot ◀─ JSON lines of a sweep                          └─ bare_insert, bare_work: plain SQL
//! ```
//!
//! Both sides of a pair find the same table, have the same connections and are metered alike.

mod args;
mod bare_insert;
mod bare_latency;
mod bare_work;
mod counter;
mod cpu;
mod facts;
mod fill;
mod flow;
mod ground;
mod insert;
mod job;
mod latency;
mod meter;
mod plan;
mod plans;
mod plot;
mod processes;
mod profiler;
mod progress;
mod report;
mod sweep;
mod table_size;
mod turn;
mod work;
mod workload;

use std::time::Duration;

use clap::ValueEnum;
use tokio_util::sync::CancellationToken;
use uniqueue::shutdown_signal;

pub(crate) use self::args::BenchArguments;
use self::ground::Ground;
pub(crate) use self::processes::{BenchRunnerArguments, run as run_bench_runner};
use self::progress::Progress;
use self::report::Line;
use self::workload::Workload;
use crate::failure::Failure;
use crate::output;
use crate::verdict::Verdict;

/// How long a turn may take to end after an interrupt, before it is dropped where it stands.
const PATIENCE: Duration = Duration::from_secs(10);

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
    let mut ground = Ground::open(&arguments, interrupt.clone()).await?;
    let dropped = async {
        interrupt.cancelled().await;
        tokio::time::sleep(PATIENCE).await;
    };
    let measured = tokio::select! {
        measured = measure(&mut ground, &arguments, &progress) => measured,
        () = dropped => Err(interrupted()),
    };
    progress.finish();
    match (measured, ground.close().await) {
        // Nothing is left behind only where that went well.
        (Ok(_) | Err(Failure::Interrupted { .. }), Err(failure)) => Err(failure),
        (measured, _) => measured,
    }
}

async fn measure(ground: &mut Ground, arguments: &BenchArguments, progress: &Progress) -> Result<Verdict, Failure> {
    if ground.interrupt.is_cancelled() {
        return Err(interrupted());
    }
    if !arguments.json {
        progress.aside(|| {
            ground.facts.warnings().iter().for_each(|warning| output::print_to_stderr(&format!("warning: {warning}")));
            output::print(&ground.facts.text())
        })?;
    }
    if arguments.sweep.is_empty() {
        return measure_workloads(ground, arguments, progress).await;
    }
    let mut rows = Vec::new();
    for sweep in &arguments.sweep {
        let say = |point: sweep::Point| {
            rows.push(point.cells());
            if arguments.json { progress.aside(|| output::print_json_line(&point)) } else { Ok(()) }
        };
        sweep.run(ground, arguments, progress, say).await?;
    }
    if !arguments.json {
        let header = ["sweep", "x", "series", "us/job", "plain SQL", "WAL B/job"].map(str::to_owned);
        let table = output::table(&header, &[false, true, false, true, true, true], &rows);
        progress.aside(|| output::print(&format!("\n{table}\n")))?;
    }
    Ok(Verdict::Fine)
}

async fn measure_workloads(
    ground: &mut Ground,
    arguments: &BenchArguments,
    progress: &Progress,
) -> Result<Verdict, Failure> {
    let workloads = if arguments.workload.is_empty() { Workload::value_variants() } else { &arguments.workload };
    let mut lines = Vec::new();
    let mut failed = None;
    for plan in plan::plans(arguments, workloads) {
        progress.begin(plan.workload.name());
        let rounds = match plan.pair.run(ground, arguments.rounds, progress).await {
            Ok(rounds) => rounds,
            Err(failure) => {
                failed = Some(failure);
                break;
            }
        };
        let Some(line) = Line::new(&plan, &rounds, &ground.facts) else { continue };
        if arguments.json {
            progress.aside(|| output::print_json_line(&line))?;
        }
        lines.push(line);
    }
    if !arguments.json && !lines.is_empty() {
        // What was measured before a failure is as good as ever.
        progress.aside(|| output::print(&format!("\n{}", report::table(&lines))))?;
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    let is_missed = lines.iter().any(|line| line.met == Some(false));
    Ok(if arguments.check && is_missed { Verdict::NotFine } else { Verdict::Fine })
}

/// Somebody wants the bench to end.
fn interrupted() -> Failure {
    Failure::Interrupted { left: "nothing is left of the bench in the database".to_owned() }
}
