//! What `uniqueue top` takes.

use clap::Args;

use crate::args::QueueArguments;
use crate::output::Span;

/// Watch queues, running jobs, failing kinds, keys and waiting inserts live, and act on them.
///
/// The screen is drawn anew when an answer comes; a slow database never holds the keys up, and how old the numbers are
/// stands at the top. Every question is bounded, whatever the size of the tables. On the screen, ? lists the keys: with
/// them jobs are inspected, cancelled and retried, and queues paused and resumed, after a question.
#[derive(Debug, Args)]
// --json is hidden: it is refused, with what there is instead.
#[command(after_help = EXAMPLES, mut_arg("json", |json| json.hide(true)))]
pub(crate) struct TopArguments {
    /// How often to look; at least 100ms
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(super) interval: Span,

    #[command(flatten)]
    pub(super) queue: QueueArguments,
}

const EXAMPLES: &str = "\
Examples:
  uniqueue top --database-url postgres://localhost/app
  uniqueue top --interval 5s --schema jobs

Exit codes:
  0    ended with q or Ctrl-C
  2    a wrong command line, no terminal, or the database does not answer at the start
  130  interrupted by SIGTERM";
