//! How the cost of a job grows with what is around it.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::Serialize;

use super::args::BenchArguments;
use super::facts::Facts;
use super::fill::Fill;
use super::ground::Ground;
use super::insert::{Inserts, Way};
use super::job::Kind;
use super::plans::plans;
use super::progress::Progress;
use super::report::rounded;
use super::table_size;
use super::turn::{Medians, Pair, Rounds, Turn};
use super::work::{Keep, Works};
use crate::failure::Failure;

/// What grows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Sweep {
    /// jobs in the table, kept or waiting
    TableSize,
    /// runners, each a process
    Runners,
    /// queues that one runner works
    Queues,
    /// bytes of args
    ArgsSize,
    /// different unique keys among the inserts
    Keys,
}

/// So many bytes of args go through one round, and through one statement, at the most.
const ROUND_BYTES: u64 = 200_000_000;
const STATEMENT_BYTES: u64 = 8_000_000;

/// One point of one curve.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    sweep: &'static str,
    series: &'static str,
    /// How much there is of what grows.
    x: u64,
    /// Jobs a round.
    n: u64,
    connections: u32,
    seconds: f64,
    jobs_per_second: f64,
    us_per_job: f64,
    bare_per_second: Option<f64>,
    bare_us_per_job: Option<f64>,
    ratio: Option<f64>,
    wal_bytes_per_job: f64,
    bare_wal_bytes_per_job: Option<f64>,
    client_cpu_per_job: Option<f64>,
    server_cpu_per_job: Option<f64>,
    /// How the database goes about ours, by statement: what EXPLAIN says.
    pub(super) plans: BTreeMap<&'static str, Vec<String>>,
    #[serde(flatten)]
    facts: Facts,
}

/// A point to be measured.
struct Task {
    series: &'static str,
    x: u64,
    connections: u32,
    pair: Pair,
}

impl Sweep {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TableSize => "table-size",
            Self::Runners => "runners",
            Self::Queues => "queues",
            Self::ArgsSize => "args-size",
            Self::Keys => "keys",
        }
    }

    const fn points(self) -> &'static [u32] {
        match self {
            Self::TableSize => &[10_000, 100_000, 1_000_000, 10_000_000],
            Self::Runners => &[1, 2, 4, 8, 16],
            Self::Queues => &[1, 10, 100, 1_000],
            Self::ArgsSize => &[100, 1_000, 10_000, 100_000],
            Self::Keys => &[1, 10, 100, 1_000, 10_000, 50_000],
        }
    }

    /// Jobs a round, where nothing else is said: many runners have done with few jobs at once.
    const fn n(self) -> u64 {
        match self {
            Self::Runners => 200_000,
            Self::TableSize | Self::Queues | Self::ArgsSize | Self::Keys => 50_000,
        }
    }

    /// Measures every point, and says each as soon as it is known.
    pub(super) async fn run(
        self,
        ground: &mut Ground,
        arguments: &BenchArguments,
        progress: &Progress,
        mut say: impl FnMut(Point) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut points = if arguments.points.is_empty() { self.points().to_vec() } else { arguments.points.clone() };
        points.sort_unstable();
        let n = arguments.n.map_or(self.n(), u64::from);
        if self == Self::TableSize {
            return table_size::run(ground, arguments, &points, n, progress, say).await;
        }
        for x in points {
            for Task { series, x, connections, pair } in self.tasks(arguments, u64::from(x), n) {
                progress.begin(format!("{} {}: {series}", self.name(), crate::output::count(x)));
                let rounds = pair.run(ground, arguments.rounds, progress).await?;
                if let Some(mut point) = Point::new(self, series, x, connections, &rounds, &ground.facts) {
                    // On the table as the last turn left it.
                    point.plans = plans(ground, statements(self, series)).await?;
                    say(point)?;
                }
            }
        }
        Ok(())
    }

    fn tasks(self, arguments: &BenchArguments, x: u64, n: u64) -> Vec<Task> {
        let small = u32::try_from(x).unwrap_or(u32::MAX);
        let connections = |otherwise: u32| arguments.connections.unwrap_or(otherwise);
        let work = |fill: Fill| {
            let (connections, concurrency) = (connections(2), arguments.concurrency);
            let (queues, n) = (fill.queues, fill.count);
            Works { fill: Some(fill), n, queues, connections, concurrency, keep: Keep::Rows, is_snapshot_held: false }
        };
        let insert = |series, way, kind, n, few: u32| {
            let connections = connections(few);
            let inserts = Inserts { way, kind, n, tasks: connections as usize, connections, beside: None };
            let pair = Pair { ours: Turn::Insert(inserts), theirs: Some(Turn::BareInsert(inserts)) };
            Task { series, x, connections, pair }
        };
        let against = |series, works: Works, ours, theirs| Task {
            series,
            x,
            connections: works.connections,
            pair: Pair { ours, theirs },
        };
        match self {
            Self::TableSize => Vec::new(),
            Self::Runners => {
                let works = work(Fill::waiting(n));
                let bare = Works { connections: works.connections.saturating_mul(small), ..works };
                vec![against("work", works, Turn::WorkInProcesses(works, small), Some(Turn::BareWork(bare)))]
            }
            Self::Queues => {
                let works = work(Fill { queues: small, ..Fill::waiting(n) });
                vec![against("work", works, Turn::Work(works), None)]
            }
            Self::ArgsSize => {
                let pad = usize::try_from(x).unwrap_or(usize::MAX);
                let n = n.min(ROUND_BYTES / x).max(1);
                let works = work(Fill { pad, ..Fill::waiting(n) });
                let bulk = Way::Bulk((STATEMENT_BYTES / x).clamp(1, 1_000));
                vec![
                    insert("insert_many", bulk, Kind { pad, ..Kind::PLAIN }, n, 4),
                    against("work", works, Turn::Work(works), Some(Turn::BareWork(works))),
                ]
            }
            Self::Keys => {
                let kind = Kind { keys: Some(x.min(n)), ..Kind::PLAIN };
                vec![insert("insert", Way::Single, kind, n, 16), insert("insert_many", Way::Bulk(1_000), kind, n, 4)]
            }
        }
    }
}

/// The statements that a series is made of.
pub(super) fn statements(sweep: Sweep, series: &str) -> &'static [&'static str] {
    if series.starts_with("work") {
        &["fetch", "fetch_onward", "complete"]
    } else if sweep == Sweep::Keys {
        // Inserted by functions: what takes time in them, beside the rows, is the probe for holders.
        &["holder"]
    } else {
        &["insert_alike"]
    }
}

impl Point {
    /// Adds up. `None`: there was no round.
    pub(super) fn new(
        sweep: Sweep,
        series: &'static str,
        x: u64,
        connections: u32,
        rounds: &Rounds,
        facts: &Facts,
    ) -> Option<Self> {
        let ours = Medians::of(&rounds.ours)?;
        let theirs = Medians::of(&rounds.theirs);
        let micros = |rate: f64| rounded(1e6 / rate.max(f64::EPSILON));
        let theirs_rate = theirs.as_ref().map(|theirs| theirs.rate);
        Some(Self {
            sweep: sweep.name(),
            series,
            x,
            n: ours.jobs as u64,
            connections,
            seconds: rounded(ours.seconds),
            jobs_per_second: rounded(ours.rate),
            us_per_job: micros(ours.rate),
            bare_per_second: theirs_rate.map(rounded),
            bare_us_per_job: theirs_rate.map(micros),
            ratio: theirs_rate.map(|theirs| rounded(ours.rate / theirs)),
            wal_bytes_per_job: rounded(ours.wal_per_job),
            bare_wal_bytes_per_job: theirs.as_ref().map(|theirs| rounded(theirs.wal_per_job)),
            client_cpu_per_job: ours.client_cpu_per_job.map(rounded),
            server_cpu_per_job: ours.server_cpu_per_job.map(rounded),
            plans: BTreeMap::new(),
            facts: facts.clone(),
        })
    }

    /// The cells of a table for people.
    pub(super) fn cells(&self) -> Vec<String> {
        let micros = |micros: f64| format!("{micros:.1}");
        vec![
            self.sweep.to_owned(),
            crate::output::count(self.x),
            self.series.to_owned(),
            micros(self.us_per_job),
            self.bare_us_per_job.map(micros).unwrap_or_default(),
            crate::output::count(self.wal_bytes_per_job.round().abs() as u64),
        ]
    }
}
