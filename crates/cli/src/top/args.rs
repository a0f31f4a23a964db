//! The arguments of `uniqueue top`.

use clap::Args;

use crate::database::DatabaseArguments;
use crate::time_argument::DurationArgument;

/// Watch queues, running jobs, failing kinds, keys, waiting inserts and groups live.
///
/// The screen is redrawn for each new snapshot and shows how old it is. Keys work at once, even if the database is slow. The
/// cost of a snapshot is bounded, whatever the size of the tables. Press ? for the list of keys: they inspect, cancel and
/// retry jobs, and pause and resume queues. Each change asks for confirmation. The column `held up` counts the groups of a queue
/// whose first job waits for others or for a limit. The list of groups (6) says what holds each up, and how long.
#[derive(Debug, Args)]
// --json is hidden. Its error names the alternatives.
#[command(after_help = EXAMPLES, mut_arg("json", |json| json.hide(true)))]
pub(crate) struct TopArguments {
    /// The time between two snapshots; at least 100ms
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub(super) interval: DurationArgument,

    #[command(flatten)]
    pub(super) database: DatabaseArguments,
}

const EXAMPLES: &str = "\
Examples:
  uniqueue top --database-url postgres://localhost/app
  uniqueue top --interval 5s --schema jobs

Exit codes:
  0    ended with q or Ctrl-C
  130  interrupted by SIGTERM";
