//! What `uniqueue demo` can be told.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::args::QueueArguments;

/// Hash every file under PATH with jobs on a PostgreSQL that needs no setting up.
///
/// It inserts one job for each regular file, unique by path and size, in one transaction with rows of an application's
/// own table; inserts all of them again, which must find every one a duplicate; and then works them: each job reads its
/// file, and stores SHA-256 and line count in the transaction that completes it. At the end it checks that no file is
/// unaccounted for.
///
/// Symbolic links are not followed. What is left out is counted and reported. A file that cannot be read fails its job,
/// which is tried three times and then discarded: that is reported, and accounted for. Paths are stored as absolute
/// paths; a backslash, a control character and a byte that is not UTF-8 stand there as \\ and \xNN.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArguments {
    /// A directory, or one file
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,

    /// Leave out directories of this name; can be given several times, and replaces the default
    #[arg(long, value_name = "NAME", default_values = [".git", "target"])]
    pub(crate) exclude: Vec<OsString>,

    /// Leave out no directory
    #[arg(long, conflicts_with = "exclude")]
    pub(crate) all: bool,

    /// Leave the throw-away database up after the report, and print its URL, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,

    #[command(flatten)]
    pub(crate) queue: QueueArguments,
}

const EXAMPLES: &str = "\
Without --database-url and DATABASE_URL it starts a PostgreSQL of its own, which is gone afterwards.
In your database it migrates the queue's schema and keeps its own tables in the schema uniqueue_demo;
drop both when you have seen enough. Jobs that an interrupted demo left there are taken over.

Examples:
  uniqueue demo                        the current directory
  uniqueue demo --json ~/src | jq .jobs_per_second
  uniqueue demo --keep                 and look around with psql
  uniqueue demo --database-url postgres://localhost/app --schema jobs

Exit codes:
  0    every file is accounted for: completed, or discarded with a reason
  1    some file is not, or a duplicate was stored
  2    a wrong command line, or something outside that failed: the database, PATH, a permission
  130  interrupted by Ctrl-C or SIGTERM before the end";
