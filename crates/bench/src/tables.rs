//! The tables for people: rates, costs and delays. Each fits into 100 columns.

use crate::output;
use crate::report::Line;
use crate::summary::Summary;
use crate::workload::Target;

/// All workloads: one table for each kind of figure that there is.
pub(crate) fn text(lines: &[Line]) -> String {
    let (delays, rates): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.ours.delays.is_some());
    let mut texts = Vec::new();
    if !rates.is_empty() {
        texts.push(rates_table(&rates));
    }
    if !delays.is_empty() {
        texts.push(delays_table(&delays));
    }
    texts.push(costs_table(lines));
    texts.join("\n")
}

fn rates_table(lines: &[&Line]) -> String {
    let header = ["workload", "at once", "jobs/s", "ratio", "rounds", "target", "met"];
    let is_number = [false, false, true, true, false, false, false];
    let rows: Vec<_> = lines.iter().map(|line| rates_cells(line)).collect();
    let mut text = table(&header, &is_number, &rows);
    if lines.iter().any(|line| line.workload.is_against_itself()) {
        text.push_str("* the counterpart is the library itself, under other circumstances\n");
    }
    text
}

fn rates_cells(line: &Line) -> Vec<String> {
    let mark = if line.workload.is_against_itself() { "*" } else { "" };
    let bare = line.bare.as_ref();
    vec![
        line.workload.name().to_owned(),
        variant(line),
        count(line.ours.jobs_per_second),
        bare.and_then(|bare| bare.ratio).map(|ratio| format!("{ratio:.2}{mark}")).unwrap_or_default(),
        bare.and_then(|bare| bare.ratio_range).map(range).unwrap_or_default(),
        target(line),
        met(line),
    ]
}

fn delays_table(lines: &[&Line]) -> String {
    let header = ["workload", "side", "p50 ms", "p99 ms", "max ms", "target", "met"];
    let is_number = [false, false, true, true, true, false, false];
    let mut rows = Vec::new();
    for line in lines {
        let mut side = |name: &str, summary: &Summary, [target, met]: [String; 2]| {
            let Some(delays) = summary.delays else { return };
            let [p50, p99, max] = [delays.p50_ms, delays.p99_ms, delays.max_ms].map(|millis| format!("{millis:.2}"));
            rows.push(vec![line.workload.name().to_owned(), name.to_owned(), p50, p99, max, target, met]);
        };
        side("ours", &line.ours, [target(line), met(line)]);
        if let Some(bare) = &line.bare {
            side("SQL", &bare.summary, Default::default());
        }
    }
    table(&header, &is_number, &rows)
}

fn costs_table(lines: &[Line]) -> String {
    let header = ["workload", "at once", "server us/job", "its", "ratio", "WAL B/job"];
    let is_number = [false, false, true, true, true, true];
    let rows: Vec<_> = lines.iter().map(costs_cells).collect();
    table(&header, &is_number, &rows)
}

fn costs_cells(line: &Line) -> Vec<String> {
    let micros =
        |summary: &Summary| summary.server_cpu_per_job.map(|micros| format!("{micros:.1}")).unwrap_or_default();
    let bare = line.bare.as_ref();
    vec![
        line.workload.name().to_owned(),
        variant(line),
        micros(&line.ours),
        bare.map(|bare| micros(&bare.summary)).unwrap_or_default(),
        bare.and_then(|bare| bare.server_cpu_ratio).map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        count(line.ours.wal_bytes_per_job),
    ]
}

/// The words that tell a line from other lines of its workload.
fn variant(line: &Line) -> String {
    let variant = line.variant;
    match (variant.tasks, variant.runners, variant.slots) {
        (Some(tasks), ..) => format!("{tasks} tasks"),
        (None, Some(runners), Some(slots)) => format!("{runners} x {slots}"),
        _ => String::new(),
    }
}

fn target(line: &Line) -> String {
    match line.check.target {
        Some(Target::Ratio(ratio)) => format!(">= {ratio}"),
        Some(Target::P99(millis)) => format!("p99 <= {millis} ms"),
        None => String::new(),
    }
}

fn met(line: &Line) -> String {
    line.check.met.map(|met| if met { "yes" } else { "NO" }).unwrap_or_default().to_owned()
}

fn range([least, greatest]: [f64; 2]) -> String {
    format!("{least:.2}-{greatest:.2}")
}

fn count(value: f64) -> String {
    output::count(value.round() as u64)
}

fn table<const N: usize>(header: &[&str; N], is_number: &[bool; N], rows: &[Vec<String>]) -> String {
    format!("{}\n", output::table(&header.map(str::to_owned), is_number, rows))
}
