//! The arguments of `uniqueue-bench`.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use uniqueue::SchemaName;

use crate::sweep::Sweep;
use crate::workload::Workload;

/// Measure every workload beside SQL that does the same.
///
/// The counterpart of a workload is written in plain SQL with nothing of the client library. It works on our own table, with
/// the same indexes and constraints. The statements are in crates/bench/src/sql.
///
/// All sides run once in each round, on emptied tables, and a round begins with another side than the one before.
/// Reported are medians of the rounds, and of each ratio also the least and the greatest. A ratio above 1 always means
/// that ours is better. Rates suffer where the machine does other things: compare the server's processor time then.
///
/// The bench starts a durable PostgreSQL of its own (fsync, synchronous_commit and full_page_writes are on) and removes
/// it at the end. TMPDIR chooses the directory of its data. DATABASE_URL is not read.
///
/// With --database-url it measures in a database of yours instead. It makes a schema there, fills it with up to some
/// million rows, asks for a checkpoint before each run where it may, and drops the schema at the end. It leaves a schema
/// alone that it did not make.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArguments {
    /// Only these workloads; can be given several times, or as a list with commas [default: all]
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    pub(crate) workload: Vec<Workload>,

    #[command(flatten)]
    pub(crate) sizes: Sizes,

    /// Have `perf record --control fifo:FIFO` record our runs, and nothing else; scripts/profile does it all
    #[arg(long, value_name = "FIFO")]
    pub(crate) perf_control: Option<PathBuf>,

    /// Answer with exit code 1 if a target is missed
    #[arg(long, conflicts_with = "sweep")]
    pub(crate) check: bool,

    /// Measure how the cost of a job grows instead; can be given several times
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',', conflicts_with = "workload")]
    pub(crate) sweep: Vec<Sweep>,

    /// Where to measure, such as 10000,1000000 rows [default: each sweep's own points]
    #[arg(long, value_name = "X", value_delimiter = ',', requires = "sweep", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) points: Vec<u32>,

    /// Measure in this database, such as postgres://user:password@host:5432/database [default: a server of its own].
    /// A password is better in PGPASSWORD, which no other user sees
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<String>,

    /// The schema to make, and to drop at the end
    #[arg(long, value_name = "NAME", default_value = "uniqueue_bench")]
    pub(crate) schema: SchemaName,

    /// Print one JSON object a workload, or a point of a sweep, each on a line of its own, as soon as it is measured
    #[arg(long)]
    pub(crate) json: bool,
}

/// How much of everything there is.
#[derive(Debug, Args)]
pub(crate) struct Sizes {
    /// Jobs a round, and the most that end_to_end inserts [default: each workload's own, 250 to 500,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) n: Option<u32>,

    /// Connections of our pool, and as many for SQL [default: each workload's own, 2 to 16]. A runner has up to seven
    /// connections of its own beside the pool. In work_slots SQL has one for each runner
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) connections: Option<u32>,

    /// How often each side runs; the medians count
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rounds: u32,

    /// How many tasks insert at once in insert_single, insert_unique, insert_half, insert_duplicate, insert_update and
    /// end_to_end: one line for each number
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "16,256")]
    pub(crate) tasks: Vec<NonZeroU16>,

    /// How many jobs a runner works at once, shared by its queues. SQL fetches 1,000 jobs at a time on each connection
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) concurrency: u32,

    /// How many jobs a runner works at once in work_slots: one line for each number. SQL fetches as many at a time
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "20,100")]
    pub(crate) slots: Vec<NonZeroU16>,

    /// How many runners work at once in work_slots, in this one process: one line for each number
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,8", value_parser = clap::value_parser!(u16).range(1..=40))]
    pub(crate) runners: Vec<u16>,

    /// How many queues work_queues has
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) queues: u32,

    /// How many groups work_grouped, work_in_order and work_blocked have
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) groups: u32,

    /// How many jobs are due in each second of scheduled
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,

    /// How many jobs more wait in work_backlog, work_fair and work_blocked
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(..=100_000_000))]
    pub(crate) backlog: u32,

    /// How many seconds end_to_end inserts for
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) duration: u32,
}

const EXAMPLES: &str = "\
Columns: ratio is our rate over that of SQL on our table, rounds the least and the greatest of its rounds; `8 x 20` is
eight runners of 20 slots. server us/job is microseconds of all processes of the embedded server (Linux only); its ratio
is the counterpart's over ours. The counterpart of work_backlog, work_grouped, work_in_order, work_fair, work_rate,
work_blocked, work_held_snapshot and end_to_end is our own work. That of insert_notified is itself beside a runner that polls, that of insert_update is our
own insert_unique, and that of insert_run_again the same with ignore. latency, scheduled, release and release_busy report delays, since a clock sets their
rate.

JSON: jobs_per_second, wal_bytes_per_job, client_cpu_per_job (this process) and server_cpu_per_job (microseconds) are
ours; `bare` has those of the counterpart, with ratio and server_cpu_ratio.

A busy machine gives other numbers, and a debug build gives useless ones: build with --release.

Examples:
  uniqueue-bench                                        every workload, a quarter of an hour and more
  uniqueue-bench --workload work,work_delete --rounds 5
  uniqueue-bench --workload work_slots --slots 50 --runners 1,4
  uniqueue-bench --json | tee bench.jsonl | jq -r '[.workload, .tasks, .ratio] | @tsv'
  uniqueue-bench --sweep table-size --points 10000,100000,1000000 --json >> sweeps.jsonl

Exit codes:
  0    measured
  1    with --check: a target is missed
  2    a wrong command line, a schema that the bench did not make, or something outside that failed
  130  interrupted by Ctrl-C or SIGTERM before the end; the schema is gone";
