//! What was measured: one JSON line a workload, or a table.

use serde::Serialize;

use super::facts::Facts;
use super::meter::Latency;
use super::plan::Plan;
use super::turn::{Medians, Rounds};
use super::workload::{Target, Workload};
use crate::output;

/// A workload, added up.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) workload: &'static str,
    /// Jobs a round.
    pub(super) n: u64,
    pub(super) connections: u32,
    pub(super) seconds: f64,
    pub(super) jobs_per_second: f64,
    /// The counterpart's. None of latency, whose rate is that of its ticks.
    pub(super) bare_per_second: Option<f64>,
    /// The median of the rounds' ratios.
    pub(super) ratio: Option<f64>,
    /// The least of them and the greatest.
    pub(super) ratio_range: Option<[f64; 2]>,
    pub(super) wal_bytes_per_job: f64,
    pub(super) bare_wal_bytes_per_job: Option<f64>,
    /// Microseconds.
    pub(super) client_cpu_per_job: Option<f64>,
    pub(super) server_cpu_per_job: Option<f64>,
    pub(super) bare_client_cpu_per_job: Option<f64>,
    pub(super) bare_server_cpu_per_job: Option<f64>,
    /// Processors that client and server kept busy.
    pub(super) cores: Option<f64>,
    pub(super) bare_cores: Option<f64>,
    pub(super) tasks: Option<usize>,
    pub(super) counterpart: &'static str,
    pub(super) target_ratio: Option<f64>,
    #[serde(skip)]
    target: Option<Target>,
    /// Whether the target is reached, where there is one.
    pub(super) met: Option<bool>,
    #[serde(flatten)]
    pub(super) latency: Option<Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bare_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bare_p99_ms: Option<f64>,
    /// Jobs a second in the first and in the last tenth of the jobs.
    pub(super) tenths: Option<[f64; 2]>,
    pub(super) bare_tenths: Option<[f64; 2]>,
    /// Jobs a second of every round: ours and theirs.
    pub(super) rounds: Vec<[Option<f64>; 2]>,
    #[serde(flatten)]
    pub(super) facts: Facts,
}

impl Line {
    /// Adds up. `None`: there was no round.
    pub(super) fn new(plan: &Plan, rounds: &Rounds, facts: &Facts) -> Option<Self> {
        let ours = Medians::of(&rounds.ours)?;
        let theirs = Medians::of(&rounds.theirs);
        let bare_latency = theirs.as_ref().and_then(|theirs| theirs.latency).map(rounded_latency);
        // A rate that the clock gives says nothing.
        let bare_rate = theirs.as_ref().filter(|theirs| theirs.latency.is_none()).map(|theirs| theirs.rate);
        let ratios = bare_rate.and_then(|_| rounds.ratios());
        let ratio = ratios.map(|[ratio, ..]| ratio);
        let target = plan.workload.target(plan.tasks);
        let met = target.and_then(|target| match target {
            Target::Ratio(wanted) => ratio.map(|ratio| ratio >= wanted),
            Target::Latency { p50, p99 } => ours.latency.map(|latency| latency.p50_ms <= p50 && latency.p99_ms <= p99),
        });
        let theirs_of = |value: fn(&Medians) -> f64| theirs.as_ref().map(value).map(rounded);
        Some(Self {
            workload: plan.workload.name(),
            // end_to_end is given a time, not a number.
            n: if plan.workload == Workload::EndToEnd { ours.jobs as u64 } else { plan.n },
            connections: plan.connections,
            seconds: rounded(ours.seconds),
            jobs_per_second: rounded(ours.rate),
            bare_per_second: bare_rate.map(rounded),
            ratio: ratio.map(rounded),
            ratio_range: ratios.map(|[_, least, most]| [rounded(least), rounded(most)]),
            wal_bytes_per_job: rounded(ours.wal_per_job),
            bare_wal_bytes_per_job: theirs_of(|theirs| theirs.wal_per_job),
            client_cpu_per_job: ours.client_cpu_per_job.map(rounded),
            server_cpu_per_job: ours.server_cpu_per_job.map(rounded),
            bare_client_cpu_per_job: theirs.as_ref().and_then(|theirs| theirs.client_cpu_per_job).map(rounded),
            bare_server_cpu_per_job: theirs.as_ref().and_then(|theirs| theirs.server_cpu_per_job).map(rounded),
            cores: ours.cores.map(rounded),
            bare_cores: theirs.as_ref().and_then(|theirs| theirs.cores).map(rounded),
            tasks: plan.tasks,
            counterpart: plan.workload.counterpart(),
            target_ratio: target.and_then(|target| match target {
                Target::Ratio(ratio) => Some(ratio),
                Target::Latency { .. } => None,
            }),
            target,
            met,
            bare_p50_ms: bare_latency.map(|latency| latency.p50_ms),
            bare_p99_ms: bare_latency.map(|latency| latency.p99_ms),
            latency: ours.latency.map(rounded_latency),
            tenths: ours.tenths.map(|tenths| tenths.map(rounded)),
            bare_tenths: theirs.as_ref().and_then(|theirs| theirs.tenths).map(|tenths| tenths.map(rounded)),
            rounds: (0..rounds.ours.len())
                .map(|round| [&rounds.ours, &rounds.theirs].map(|side| side.get(round).map(|one| rounded(one.rate()))))
                .collect(),
            facts: facts.clone(),
        })
    }
}

/// All workloads, for people.
pub(super) fn table(lines: &[Line]) -> String {
    let header =
        ["workload", "tasks", "jobs/s", "counterpart", "its jobs/s", "ratio", "rounds", "target", "met", "WAL B/job"];
    let header = header.map(str::to_owned);
    let is_number = [false, true, true, false, true, true, false, false, false, true];
    let rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
    format!("{}\n", output::table(&header, &is_number, &rows))
}

fn cells(line: &Line) -> Vec<String> {
    let rate = |rate: f64| output::count(rate.round() as u64);
    let value = match &line.latency {
        Some(latency) => {
            let bare = match (line.bare_p50_ms, line.bare_p99_ms) {
                (Some(p50), Some(p99)) => format!(" ({}: {p50:.2}, {p99:.2})", line.counterpart),
                _ => String::new(),
            };
            format!("p50 {:.2} ms, p99 {:.2}, max {:.1}{bare}", latency.p50_ms, latency.p99_ms, latency.max_ms)
        }
        None => line.counterpart.to_owned(),
    };
    let target = match line.target {
        Some(Target::Ratio(ratio)) => format!(">= {ratio}"),
        Some(Target::Latency { p50, p99 }) => format!("p50 <= {p50} ms, p99 <= {p99}"),
        None => String::new(),
    };
    vec![
        line.workload.to_owned(),
        line.tasks.map(|tasks| tasks.to_string()).unwrap_or_default(),
        rate(line.jobs_per_second),
        value,
        line.bare_per_second.map(rate).unwrap_or_default(),
        line.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        line.ratio_range.map(|[least, most]| format!("{least:.2}-{most:.2}")).unwrap_or_default(),
        target,
        line.met.map(|met| if met { "yes" } else { "NO" }).unwrap_or_default().to_owned(),
        rate(line.wal_bytes_per_job),
    ]
}

fn rounded_latency(latency: Latency) -> Latency {
    Latency {
        p50_ms: rounded(latency.p50_ms),
        p99_ms: rounded(latency.p99_ms),
        max_ms: rounded(latency.max_ms),
        from_call_p50_ms: rounded(latency.from_call_p50_ms),
        from_call_p99_ms: rounded(latency.from_call_p99_ms),
    }
}

/// To thousandths: what was measured, without the noise.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
