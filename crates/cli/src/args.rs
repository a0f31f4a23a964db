//! What can be said on the command line.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use uniqueue::SchemaName;

use crate::bench::{BenchArguments, BenchRunnerArguments};

/// A PostgreSQL job queue whose heart is unique jobs.
#[derive(Debug, Parser)]
#[command(name = "uniqueue", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Hash every file under PATH with jobs on a PostgreSQL that needs no setting up
    Demo(DemoArguments),
    /// Run a PostgreSQL for development
    Db {
        #[command(subcommand)]
        command: DbCommand,
    },
    /// Bring a database's schema to the version that this uniqueue needs
    Migrate(MigrateArguments),
    /// Measure every workload against plain SQL in the same run
    Bench(Box<BenchArguments>),
    /// One runner of a bench, in a process of its own
    #[command(hide = true)]
    BenchRunner(BenchRunnerArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Run PostgreSQL in the foreground until Ctrl-C, with data that stay
    Start(DbStartArguments),
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    ran to its end, and what it found is not right (each command says when)
  2    a wrong command line, or something outside that failed: the database, a file, a permission
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Which queue, and how to answer.
#[derive(Debug, Args)]
pub(crate) struct QueueArguments {
    /// The database, such as postgres://user:password@host:5432/database
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,

    /// The schema that holds the queue
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) schema: SchemaName,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

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
#[command(after_help = DEMO_EXAMPLES)]
pub(crate) struct DemoArguments {
    /// A directory, or one file
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,

    /// Leave out directories of this name; can be given several times, and replaces the default
    #[arg(long, value_name = "NAME", default_values = [".git", "target"])]
    pub(crate) exclude: Vec<std::ffi::OsString>,

    /// Leave out no directory
    #[arg(long, conflicts_with = "exclude")]
    pub(crate) all: bool,

    /// Leave the throw-away database up after the report, and print its URL, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,

    #[command(flatten)]
    pub(crate) queue: QueueArguments,
}

const DEMO_EXAMPLES: &str = "\
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

/// Run PostgreSQL in the foreground until Ctrl-C, with data that stay.
///
/// It prints the URL to paste. Without --port it can be reached only by this user and root, through a Unix socket at a
/// new path each time.
#[derive(Debug, Args)]
#[command(after_help = DB_START_EXAMPLES)]
pub(crate) struct DbStartArguments {
    /// Where the data stay [default: $XDG_DATA_HOME/uniqueue/postgres, else ~/.local/share/uniqueue/postgres; for root
    /// /var/lib/uniqueue/postgres]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Listen on this port of 127.0.0.1: the URL stays the same, and every user of this machine can connect, as superuser
    /// and without a password
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<NonZeroU16>,

    /// Print the URL, version and data directory as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const DB_START_EXAMPLES: &str = "\
Examples:
  uniqueue db start
  uniqueue db start --port 5433 --data-dir ./pgdata

Exit codes:
  0    stopped by Ctrl-C or SIGTERM
  2    a wrong command line, or the server did not start or ended by itself";

/// Bring a database's schema to the version that this uniqueue needs.
///
/// All in one transaction, and safe to run from any number of processes at once. With --status nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = MIGRATE_EXAMPLES)]
pub(crate) struct MigrateArguments {
    /// Only say which migrations the schema has seen, and whether it lacks any
    #[arg(long)]
    pub(crate) status: bool,

    #[command(flatten)]
    pub(crate) queue: QueueArguments,
}

const MIGRATE_EXAMPLES: &str = "\
Examples:
  uniqueue migrate --database-url postgres://localhost/app
  uniqueue migrate --status --schema jobs || echo 'not up to date'

Exit codes:
  0    the schema is at the version that this uniqueue needs
  1    with --status: it is not
  2    a wrong command line, or the database failed or is newer";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
