//! One point of a sweep's curve.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::comparison::Rounds;
use crate::facts::Facts;
use crate::output;
use crate::rounded::rounded;
use crate::summary::Summary;
use crate::sweep::Sweep;

/// One point of one curve.
#[derive(Debug, Serialize)]
pub(crate) struct Point {
    sweep: &'static str,
    series: &'static str,
    /// How much there is of what grows.
    x: u64,
    /// Jobs a round.
    n: u64,
    connections: u32,
    #[serde(flatten)]
    ours: Summary,
    us_per_job: f64,
    bare_us_per_job: Option<f64>,
    ratio: Option<f64>,
    bare: Option<Summary>,
    /// The plans that EXPLAIN shows of our statements, by name.
    pub(crate) plans: BTreeMap<&'static str, Vec<String>>,
    #[serde(flatten)]
    facts: Facts,
}

impl Point {
    /// `None`: there was no round.
    pub(crate) fn new(
        sweep: Sweep,
        series: &'static str,
        x: u64,
        connections: u32,
        rounds: &Rounds,
        facts: &Facts,
    ) -> Option<Self> {
        let ours = Summary::of(&rounds.ours)?;
        let bare = Summary::of(&rounds.bare);
        let micros = |summary: &Summary| rounded(1e6 / summary.jobs_per_second.max(f64::EPSILON));
        Some(Self {
            sweep: sweep.name(),
            series,
            x,
            n: ours.jobs as u64,
            connections,
            us_per_job: micros(&ours),
            bare_us_per_job: bare.as_ref().map(micros),
            ratio: bare.as_ref().map(|bare| rounded(ours.jobs_per_second / bare.jobs_per_second)),
            ours,
            bare,
            plans: BTreeMap::new(),
            facts: facts.clone(),
        })
    }
}

/// The points of all sweeps, for people.
pub(crate) fn table(points: &[Point]) -> String {
    let header = ["sweep", "x", "series", "us/job", "plain SQL", "WAL B/job"].map(str::to_owned);
    let rows: Vec<_> = points.iter().map(cells).collect();
    output::table(&header, &[false, true, false, true, true, true], &rows)
}

fn cells(point: &Point) -> Vec<String> {
    let micros = |micros: f64| format!("{micros:.1}");
    vec![
        point.sweep.to_owned(),
        output::count(point.x),
        point.series.to_owned(),
        micros(point.us_per_job),
        point.bare_us_per_job.map(micros).unwrap_or_default(),
        output::count(point.ours.wal_bytes_per_job.round().abs() as u64),
    ]
}
