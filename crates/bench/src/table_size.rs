//! How the cost of a job grows with the jobs in the table: finished ones that are kept, and ones that wait.
//!
//! Only the rows that a run leaves are deleted between runs, so that ten million rows are made once.

use crate::args::BenchArguments;
use crate::comparison::{Rounds, Side};
use crate::failure::Failure;
use crate::failures::wrong;
use crate::fill::Fill;
use crate::insert::{Call, Insert};
use crate::job::Kind;
use crate::meter::Measure;
use crate::plans::plans;
use crate::point::Point;
use crate::progress::Progress;
use crate::run::Run;
use crate::sweep::Sweep;
use crate::test_database::TestDatabase;
use crate::work::{Keep, Loops, Runners, Work};

/// The rows that fill the table are a year old by their ids, which tells them from the rows of runs. Of the waiting
/// ones those that a run worked are deleted, too.
const AGE: &str = "365 days";
const CLEAN_UP: [(&str, &str); 2] = [
    ("completed", "DELETE FROM /* schema */job WHERE id > /* young */"),
    ("available", "DELETE FROM /* schema */job WHERE id > /* young */ OR finalized_at IS NOT NULL"),
];

/// The first id of half a year ago.
const YOUNG: &str = "(lpad(to_hex((extract(epoch FROM now() - interval '180 days') * 1000)::bigint), 12, '0')
    || '70008000000000000000')::uuid";

/// The two runs of each side, one after the other.
struct Steps {
    insert: Insert,
    work: Work,
}

/// Measures on tables of these sizes.
pub(crate) async fn run(
    database: &mut TestDatabase,
    arguments: &BenchArguments,
    points: &[u32],
    n: u64,
    progress: &Progress,
    mut say: impl FnMut(Point) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let steps = Steps::new(arguments, n);
    for (state, clean_up) in CLEAN_UP {
        let series = match state {
            "completed" => ["insert_many, among kept jobs", "work, among kept jobs"],
            _ => ["insert_many, among waiting jobs", "work, before waiting jobs"],
        };
        database.empty().await?;
        let mut next = 0;
        for x in points.iter().copied().map(u64::from) {
            progress.begin(format!("{} {}, {state}", Sweep::TableSize.name(), crate::output::count(x)));
            let (mut inserts, mut works) = (Rounds::default(), Rounds::default());
            grow(database, x, state, &mut next).await?;
            let plans = [
                plans(database, Sweep::TableSize.statements(series[0])).await?,
                plans(database, Sweep::TableSize.statements(series[1])).await?,
            ];
            for round in 1..=arguments.sizes.rounds {
                for side in Side::order(round) {
                    progress.round(round, arguments.sizes.rounds, side.name());
                    grow(database, x, state, &mut next).await?;
                    let [insert, work] = steps.run(database, side).await?;
                    inserts.push(side, insert);
                    works.push(side, work);
                    database.execute(&clean_up.replace("/* young */", YOUNG)).await?;
                    // Every run must find the same table.
                    let left = database.count("SELECT count(*) FROM /* schema */job").await?;
                    if state == "completed" && left != x {
                        return Err(wrong(format!("a run left {left} jobs of {x}")));
                    }
                    database.execute("VACUUM /* schema */job").await?;
                }
            }
            let measured = [(steps.insert.connections, &inserts), (steps.work.runners.connections, &works)];
            for ((series, plans), (connections, rounds)) in series.into_iter().zip(plans).zip(measured) {
                if let Some(mut point) = Point::new(Sweep::TableSize, series, x, connections, rounds, &database.facts) {
                    point.plans = plans;
                    say(point)?;
                }
            }
        }
    }
    Ok(())
}

/// Fills the table up to this size.
async fn grow(database: &mut TestDatabase, size: u64, state: &'static str, next: &mut u64) -> Result<(), Failure> {
    let there = database.count("SELECT count(*) FROM /* schema */job").await?;
    if there > size {
        return Err(wrong(format!("the table has {there} jobs instead of {size}")));
    }
    let count = size - there;
    if count > 0 {
        // Waiting jobs have unique keys, so that every index is as large as it gets.
        let fill = Fill { first: *next, has_keys: state == "available", state, age: AGE, ..Fill::waiting(count) };
        fill.insert(database).await?;
        *next += count;
        database.execute("VACUUM (ANALYZE) /* schema */job").await?;
    }
    database.checkpoint().await
}

impl Steps {
    fn new(arguments: &BenchArguments, n: u64) -> Self {
        let inserters = arguments.sizes.connections.unwrap_or(4);
        let workers = arguments.sizes.connections.unwrap_or(2);
        Self {
            insert: Insert {
                call: Call::Bulk(1_000),
                // The new jobs come before those that fill the table.
                kind: Kind { priority: 1, ..Kind::PLAIN },
                n,
                tasks: inserters as usize,
                connections: inserters,
                runner: None,
            },
            work: Work {
                fill: None,
                blocked: None,
                n,
                queues: 1,
                keep: Keep::Rows,
                is_snapshot_held: false,
                runners: Runners { count: 1, slots: arguments.sizes.concurrency, connections: workers },
                loops: Loops { connections: workers, batch: 1_000 },
            },
        }
    }

    async fn run(&self, database: &mut TestDatabase, side: Side) -> Result<[Measure; 2], Failure> {
        database.profiler.is_ours = side == Side::Ours;
        let (insert, work) = match side {
            Side::Ours => (Run::Insert(self.insert), Run::Work(self.work)),
            Side::Bare => (Run::SqlInsert(self.insert), Run::SqlWork(self.work)),
        };
        let measured = [insert.run_as_it_is(database).await?, work.run_as_it_is(database).await?];
        database.profiler.is_ours = false;
        Ok(measured)
    }
}
