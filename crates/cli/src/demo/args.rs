//! The arguments of `uniqueue demo`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::database::DatabaseArguments;

/// Hash every file under PATH with jobs, on a PostgreSQL that needs no setup.
///
/// It inserts one job for each regular file, unique by path and size, in one transaction with rows of an application's own
/// table. It inserts all of them again, and every one must be a duplicate. Then it works the jobs: each reads its file, and
/// stores SHA-256 and line count in the transaction that completes it. At the end it checks that every file is accounted for.
///
/// It does not follow symbolic links. It counts and reports the files that it leaves out. A job whose file cannot be read
/// is tried three times and then discarded; such files are reported and accounted for. Paths are stored as absolute paths.
/// A percent sign, control characters and bytes that are not UTF-8 are written %NN.
///
/// ***
///
/// Without --database-url and DATABASE_URL it starts a PostgreSQL server of its own and removes it at the end. In your
/// database it migrates the queue's schema and keeps its own tables in the schema uniqueue_demo. Drop both when you are done.
/// It works jobs that an interrupted demo left there as well.
///
/// Examples:
///   uniqueue demo                        the current directory
///   uniqueue demo --json ~/src | jq .jobs_per_second
///   uniqueue demo --tables               with tables of the queue and its jobs
///   uniqueue demo --keep                 and explore it with `uniqueue top` and psql
///   uniqueue demo --database-url postgres://localhost/app --schema jobs
///
/// Exit codes:
///   0    every file is accounted for: completed, or discarded with a reason
///   1    a file is not accounted for, or a duplicate was stored
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DemoArguments {
    /// A directory, or one file
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,

    /// Leave out directories with this name; repeat it for several names; it replaces the default
    #[arg(long, value_name = "NAME", default_values = [".git", "target"])]
    pub(crate) exclude: Vec<OsString>,

    /// Leave out no directory
    #[arg(long, conflicts_with = "exclude")]
    pub(crate) all: bool,

    /// Print tables after the summary: the queue, and some of its jobs
    #[arg(long, conflicts_with = "json")]
    pub(crate) tables: bool,

    /// Keep the throw-away database running after the report until Ctrl-C, and print its URL
    #[arg(long)]
    pub(crate) keep: bool,

    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
}
