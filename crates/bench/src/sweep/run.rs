//! How the cost of a job grows with the table, the runners, the queues, the args and the keys.

use super::Sweep;
use crate::args::BenchArguments;
use crate::comparison::Comparison;
use crate::failure::Failure;
use crate::fill::Fill;
use crate::insert::{Call, Insert};
use crate::job::{Keys, Kind};
use crate::plans::plans;
use crate::point::Point;
use crate::progress::Progress;
use crate::run::Run;
use crate::table_size;
use crate::test_database::TestDatabase;
use crate::work::{Keep, Loops, Runners, Work};

/// The most bytes of args in one run, and in one statement.
const RUN_BYTES: u64 = 200_000_000;
const STATEMENT_BYTES: u64 = 8_000_000;

/// Jobs that a loop of SQL fetches at a time.
const BATCH: u32 = 1_000;

/// A point to be measured.
struct Task {
    series: &'static str,
    x: u64,
    connections: u32,
    comparison: Comparison,
}

impl Sweep {
    /// Measures every point, and hands each to `say` as soon as it is measured.
    pub(crate) async fn run(
        self,
        database: &mut TestDatabase,
        arguments: &BenchArguments,
        progress: &Progress,
        mut say: impl FnMut(Point) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut points = if arguments.points.is_empty() { self.points().to_vec() } else { arguments.points.clone() };
        points.sort_unstable();
        let n = arguments.sizes.n.map_or(self.n(), u64::from);
        if self == Self::TableSize {
            return table_size::run(database, arguments, &points, n, progress, say).await;
        }
        for x in points {
            for Task { series, x, connections, comparison } in self.tasks(arguments, u64::from(x), n) {
                progress.begin(format!("{} {}: {series}", self.name(), crate::output::count(x)));
                let rounds = comparison.run(database, arguments.sizes.rounds, progress).await?;
                if let Some(mut point) = Point::new(self, series, x, connections, &rounds, &database.facts) {
                    // On the table as the last run left it.
                    point.plans = plans(database, self.statements(series)).await?;
                    say(point)?;
                }
            }
        }
        Ok(())
    }

    fn tasks(self, arguments: &BenchArguments, x: u64, n: u64) -> Vec<Task> {
        let small = u32::try_from(x).unwrap_or(u32::MAX);
        match self {
            Self::TableSize => Vec::new(),
            Self::Runners => {
                let mut work = work(arguments, Fill::waiting(n));
                work.runners.count = small;
                let bare = Loops { connections: work.loops.connections.saturating_mul(small), ..work.loops };
                let bare = Some(Run::SqlWork(Work { loops: bare, ..work }));
                vec![Task::new("work", x, work, Comparison { ours: Run::WorkInProcesses(work), bare })]
            }
            Self::Queues => {
                let work = work(arguments, Fill { queues: small, ..Fill::waiting(n) });
                vec![Task::new("work", x, work, Comparison { ours: Run::Work(work), bare: None })]
            }
            Self::ArgsSize => {
                let pad = usize::try_from(x).unwrap_or(usize::MAX);
                let n = n.min(RUN_BYTES / x).max(1);
                let work = work(arguments, Fill { pad, ..Fill::waiting(n) });
                let call = Call::Bulk((STATEMENT_BYTES / x).clamp(1, 1_000));
                vec![
                    insert(arguments, "insert_many", x, call, Kind { pad, ..Kind::PLAIN }, n, 4),
                    Task::new("work", x, work, Comparison::of_work(work)),
                ]
            }
            Self::Keys => {
                let kind = Kind { keys: Keys::Different(x.min(n)), ..Kind::PLAIN };
                vec![
                    insert(arguments, "insert", x, Call::Single, kind, n, 16),
                    insert(arguments, "insert_many", x, Call::Bulk(1_000), kind, n, 4),
                ]
            }
        }
    }

    /// The statements that a series is made of.
    pub(crate) fn statements(self, series: &str) -> &'static [&'static str] {
        if series.starts_with("work") {
            &["fetch", "complete"]
        } else if self == Self::Keys {
            // Functions insert: beside the rows, the probe for holders is what takes time in them.
            &["holder"]
        } else {
            &["insert_plain"]
        }
    }
}

impl Task {
    const fn new(series: &'static str, x: u64, work: Work, comparison: Comparison) -> Self {
        Self { series, x, connections: work.runners.connections, comparison }
    }
}

fn insert(
    arguments: &BenchArguments,
    series: &'static str,
    x: u64,
    call: Call,
    kind: Kind,
    n: u64,
    connections: u32,
) -> Task {
    let connections = arguments.sizes.connections.unwrap_or(connections);
    let insert = Insert { call, kind, n, tasks: connections as usize, connections, runner: None };
    Task { series, x, connections, comparison: Comparison::of_inserts(insert) }
}

/// Work of one runner on the jobs of a filling.
fn work(arguments: &BenchArguments, fill: Fill) -> Work {
    let connections = arguments.sizes.connections.unwrap_or(2);
    Work {
        fill: Some(fill),
        blocked: None,
        n: fill.count,
        queues: fill.queues,
        keep: Keep::Rows,
        is_snapshot_held: false,
        runners: Runners { count: 1, slots: arguments.sizes.concurrency, connections },
        loops: Loops { connections, batch: BATCH },
    }
}
