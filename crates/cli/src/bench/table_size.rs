//! How the cost of a job grows with the jobs that are in the table: those that are done, and those that wait.
//!
//! The table is not emptied between turns, only what a turn left is taken out, so that ten million rows are made once.

use super::args::BenchArguments;
use super::fill::Fill;
use super::ground::Ground;
use super::insert::{Inserts, Way, wrong};
use super::job::Kind;
use super::meter::Measure;
use super::plans::plans;
use super::progress::Progress;
use super::sweep::{Point, Sweep, statements};
use super::turn::{Rounds, Turn, order};
use super::work::{Keep, Works};
use crate::failure::Failure;

/// Filled rows are a year old by their ids, which tells them from those that turns make. Jobs of the filling that were
/// worked go, too.
const AGE: &str = "365 days";
const TAKE_OUT: [(&str, &str); 2] = [
    ("completed", "DELETE FROM /* schema */job WHERE id > /* young */"),
    ("available", "DELETE FROM /* schema */job WHERE id > /* young */ OR finalized_at IS NOT NULL"),
];

/// The first id of half a year ago.
const YOUNG: &str = "(lpad(to_hex((extract(epoch FROM now() - interval '180 days') * 1000)::bigint), 12, '0')
    || '70008000000000000000')::uuid";

/// What is done on a table of a size, in this order.
struct Steps {
    insert: Inserts,
    work: Works,
}

/// Measures on tables of so many jobs.
pub(super) async fn run(
    ground: &mut Ground,
    arguments: &BenchArguments,
    points: &[u32],
    n: u64,
    progress: &Progress,
    mut say: impl FnMut(Point) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let inserters = arguments.connections.unwrap_or(4);
    let workers = arguments.connections.unwrap_or(2);
    // Before those that wait, however many there are.
    let kind = Kind { priority: 1, ..Kind::PLAIN };
    let steps = Steps {
        insert: Inserts {
            way: Way::Bulk(1_000),
            kind,
            n,
            tasks: inserters as usize,
            connections: inserters,
            beside: None,
        },
        work: Works {
            fill: None,
            n,
            queues: 1,
            connections: workers,
            concurrency: arguments.concurrency,
            keep: Keep::Rows,
            is_snapshot_held: false,
        },
    };
    for (state, take_out) in TAKE_OUT {
        let series = match state {
            "completed" => ["insert_many, among kept jobs", "work, among kept jobs"],
            _ => ["insert_many, among waiting jobs", "work, before waiting jobs"],
        };
        ground.empty().await?;
        let mut next = 0;
        for x in points.iter().copied().map(u64::from) {
            progress.begin(format!("{} {}, {state}", Sweep::TableSize.name(), crate::output::count(x)));
            let (mut inserts, mut works) = (Rounds::default(), Rounds::default());
            grow(ground, x, state, &mut next).await?;
            let plans = [
                plans(ground, statements(Sweep::TableSize, series[0])).await?,
                plans(ground, statements(Sweep::TableSize, series[1])).await?,
            ];
            for round in 1..=arguments.rounds {
                for is_ours in order(round) {
                    progress.round(round, arguments.rounds, if is_ours { "ours" } else { "theirs" });
                    grow(ground, x, state, &mut next).await?;
                    let [insert, work] = steps.take(ground, is_ours).await?;
                    let (insert_side, work_side) = if is_ours {
                        (&mut inserts.ours, &mut works.ours)
                    } else {
                        (&mut inserts.theirs, &mut works.theirs)
                    };
                    insert_side.push(insert);
                    work_side.push(work);
                    ground.execute(&take_out.replace("/* young */", YOUNG)).await?;
                    // What is filled stays, or the next turn would not find what this one did.
                    let left = ground.count("SELECT count(*) FROM /* schema */job").await?;
                    if state == "completed" && left != x {
                        return Err(wrong(format!("a turn left {left} jobs of {x}")));
                    }
                    ground.execute("VACUUM /* schema */job").await?;
                }
            }
            let sides = [(inserters, &inserts), (workers, &works)];
            for ((series, plans), (connections, rounds)) in series.into_iter().zip(plans).zip(sides) {
                if let Some(mut point) = Point::new(Sweep::TableSize, series, x, connections, rounds, &ground.facts) {
                    point.plans = plans;
                    say(point)?;
                }
            }
        }
    }
    Ok(())
}

/// Brings the table to so many jobs.
async fn grow(ground: &mut Ground, size: u64, state: &'static str, next: &mut u64) -> Result<(), Failure> {
    let there = ground.count("SELECT count(*) FROM /* schema */job").await?;
    if there > size {
        return Err(wrong(format!("the table has {there} jobs where {size} are to be")));
    }
    let count = size - there;
    if count > 0 {
        // Those that wait have unique keys, so that every index is as large as it gets.
        let fill = Fill { first: *next, keyed: state == "available", state, age: AGE, ..Fill::waiting(count) };
        fill.insert(ground).await?;
        *next += count;
        ground.execute("VACUUM (ANALYZE) /* schema */job").await?;
    }
    ground.checkpoint().await
}

impl Steps {
    async fn take(&self, ground: &mut Ground, is_ours: bool) -> Result<[Measure; 2], Failure> {
        let (insert, work) = if is_ours {
            (Turn::Insert(self.insert), Turn::Work(self.work))
        } else {
            (Turn::BareInsert(self.insert), Turn::BareWork(self.work))
        };
        Ok([insert.take_as_it_is(ground).await?, work.take_as_it_is(ground).await?])
    }
}
