//! What `uniqueue bench` can be told.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use uniqueue::SchemaName;

use super::sweep::Sweep;
use super::workload::Workload;
use crate::database::DatabaseArguments;

/// Measure every workload against plain SQL in the same run.
///
/// Each workload and its counterpart take turns: ours, theirs, ours, theirs, as often as --rounds says, with the table
/// emptied the same way in between, and who begins changes from round to round. The medians are reported, the ratio's
/// with its least and greatest; a ratio means something on any machine. The counterpart is plain SQL on the same table
/// with the same indexes, with nothing of the client library. Its statements are in crates/cli/src/bench/sql.
///
/// It starts a durable PostgreSQL of its own: what is committed is on the disk (fsync, synchronous_commit and
/// full_page_writes are on). It is gone afterwards. TMPDIR says where its data are. DATABASE_URL is not read.
///
/// With --database-url it measures in your database instead: it makes a schema there, fills it with up to some million
/// rows, asks for a checkpoint before each turn where it may, and drops the schema at the end. A schema that it did not
/// make is left alone.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArguments {
    /// Only these workloads; can be given several times, or as a list with commas [default: all]
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    pub(super) workload: Vec<Workload>,

    /// Jobs a round, and the most that end_to_end inserts [default: each workload's own, 250 to 500,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(super) n: Option<u32>,

    /// Connections of our pool, and as many for theirs [default: each workload's own, 2 to 16]. A runner works over
    /// connections of its own beside the pool, up to six; theirs, where jobs are worked, over these
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) connections: Option<u32>,

    /// How often each of the two takes its turn; the medians count
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) rounds: u32,

    /// How many tasks insert at once in insert_single, insert_unique, insert_duplicate and end_to_end: one line for
    /// each number
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "16,256")]
    pub(super) tasks: Vec<NonZeroU16>,

    /// How many jobs the runner works at once. Theirs has 1,000 in hand on each of its connections
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) concurrency: u32,

    /// How many jobs more wait in work_backlog
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(..=100_000_000))]
    pub(super) backlog: u32,

    /// How many seconds end_to_end inserts for
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) duration: u32,

    /// Have `perf record --control fifo:FIFO` record our turns, and nothing else; scripts/profile does it all
    #[arg(long, value_name = "FIFO")]
    pub(super) perf_control: Option<PathBuf>,

    /// Answer with exit code 1 if a target is missed
    #[arg(long, conflicts_with = "sweep")]
    pub(super) check: bool,

    /// Measure how the cost of a job grows instead; can be given several times
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',', conflicts_with = "workload")]
    pub(super) sweep: Vec<Sweep>,

    /// Where to measure, such as 10000,1000000 rows [default: each sweep's own points]
    #[arg(long, value_name = "X", value_delimiter = ',', requires = "sweep", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) points: Vec<u32>,

    /// Draw the curves of a file that --sweep --json wrote, and measure nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "sweep", "json", "check"])]
    pub(super) plot: Option<PathBuf>,

    /// Where the curves go, and the plans behind them
    #[arg(long, value_name = "DIR", default_value = "docs/performance", requires = "plot")]
    pub(super) out: PathBuf,

    /// Measure in this database, such as postgres://user:password@host:5432/database [default: a server of its own].
    /// A password is better in PGPASSWORD, which no other user sees
    #[arg(long, value_name = "URL")]
    pub(super) database_url: Option<String>,

    /// The schema to make, and to drop at the end
    #[arg(long, value_name = "NAME", default_value = "uniqueue_bench")]
    pub(super) schema: SchemaName,

    /// Print one JSON object a workload, or a point of a sweep, each on a line of its own, as soon as it is measured
    #[arg(long)]
    pub(super) json: bool,
}

impl BenchArguments {
    /// Which database, in the words of the other commands.
    pub(super) fn queue(&self) -> DatabaseArguments {
        DatabaseArguments { database_url: self.database_url.clone(), schema: self.schema.clone(), json: self.json }
    }
}

const EXAMPLES: &str = "\
Units: seconds; jobs a second; bytes of WAL a job; microseconds of processor time a job (client_cpu_per_job is this
process, server_cpu_per_job the embedded server; Linux only). Counterparts that are not plain SQL say so: work_backlog,
work_held_snapshot and end_to_end are measured against our own work.

A machine that does other things gives other numbers, and a debug build says nothing: build with --release.

Examples:
  uniqueue bench                                        every workload, six minutes and more
  uniqueue bench --workload work,work_delete --rounds 5
  uniqueue bench --json | tee bench.jsonl | jq -r '[.workload, .tasks, .ratio] | @tsv'
  uniqueue bench --sweep table-size --points 10000,100000,1000000 --json >> sweeps.jsonl
  uniqueue bench --plot sweeps.jsonl --out docs/performance

Exit codes:
  0    measured; or the curves are drawn
  1    with --check: a target is missed
  2    a wrong command line, a schema that the bench did not make, or something outside that failed
  130  interrupted by Ctrl-C or SIGTERM before the end; the schema is gone";
