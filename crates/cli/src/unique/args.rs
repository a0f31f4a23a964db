//! What `uniqueue unique` can be told.

use clap::{Args, Subcommand, ValueEnum};

use crate::args::QueueArguments;
use crate::output::{Moment, Span};

/// Look at unique keys and who claims them, free a key, count duplicates, give queued jobs their keys.
///
/// A key is claimed by at most one job at a time, its holder. An insert that meets a holder is a duplicate.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UniqueArguments {
    #[command(subcommand)]
    pub(super) command: UniqueCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum UniqueCommand {
    Explain(ExplainArguments),
    Holders(HoldersArguments),
    Show(ShowArguments),
    Release(ReleaseArguments),
    Audit(AuditArguments),
    Backfill(BackfillArguments),
}

const EXAMPLES: &str = "\
Examples:
  uniqueue unique show 71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f
  uniqueue unique holders --kind email.send
  uniqueue unique explain email.send --args '{\"user_id\": 42}' --policy '{\"keys\": [\"args\"]}'
  uniqueue unique backfill --kind email.send --policy policy.json --dry-run

Exit codes:
  0    done
  1    ran to its end, and what it found is not right (each command says when)
  2    a wrong command line, or something outside that failed: the database, a file, a permission
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Say what an insert would do, and why, without doing it.
///
/// It makes the key as the insert would, from the kind, what the policy adds and the database's time, and looks who claims it:
/// without locks or writes. Another transaction may change the answer meanwhile.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
#[command(group = clap::ArgGroup::new("sort").required(true))]
pub(super) struct ExplainArguments {
    /// The job's kind
    pub(super) kind: String,

    /// The job's args, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(super) args: String,

    /// The job's queue
    #[arg(long = "queue", value_name = "NAME", default_value = "default")]
    pub(super) queue_name: String,

    /// The job's meta, as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(super) meta: String,

    /// When the job is to run: decides the window of a policy that has one [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) scheduled_at: Option<Moment>,

    /// The policy: a document as in `insert_job`, or the file that holds it
    #[arg(long, value_name = "FILE|JSON", group = "sort")]
    pub(super) policy: Option<String>,

    /// A raw key in place of a policy
    #[arg(long, value_name = "KEY", group = "sort")]
    pub(super) key: Option<String>,

    #[command(flatten)]
    pub(super) queue: QueueArguments,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  uniqueue unique explain email.send --args '{\"user_id\": 42}' --policy '{\"keys\": [\"args\"]}'
  uniqueue unique explain report.build --args @args.json --policy policy.json --json
  uniqueue unique explain rebuild --key rebuild_index || echo 'somebody has it'

Exit codes:
  0    the job would be inserted
  1    it would not: another job claims the key
  2    a wrong command line or policy, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// List the keys that are claimed, and by which jobs.
///
/// In the order of the keys, a page at a time; the next page is as quick as the first. By a kind or a queue every claim is
/// looked at until the page is full.
#[derive(Debug, Args)]
#[command(after_help = HOLDERS_EXAMPLES)]
pub(super) struct HoldersArguments {
    /// Only keys that begin with this text
    #[arg(long, value_name = "TEXT")]
    pub(super) prefix: Option<String>,

    /// Only holders of this kind
    #[arg(long, value_name = "KIND")]
    pub(super) kind: Option<String>,

    /// Only holders in this queue
    #[arg(long = "queue", value_name = "NAME")]
    pub(super) queue_name: Option<String>,

    /// Only keys beyond this one: the last of the page before
    #[arg(long, value_name = "KEY")]
    pub(super) after: Option<String>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) limit: u32,

    #[command(flatten)]
    pub(super) queue: QueueArguments,
}

const HOLDERS_EXAMPLES: &str = "\
Examples:
  uniqueue unique holders
  uniqueue unique holders --kind email.send --limit 1000 --json | jq -r .unique_key
  uniqueue unique holders --prefix sync: --after sync:4711

Exit codes:
  0    listed, also where there is none
  2    a wrong command line, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Tell all about one key: who claims it, until when, which jobs had it, who waits for it.
///
/// KEY is the key's text, usually the 64 hexadecimal digits of a hash, of which the first eight or more will do if no other
/// claimed key begins with them; or the id of a job, for the key of that job.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(super) struct ShowArguments {
    /// The key, or the id of a job that has it; a key that begins with a dash goes last, after --
    pub(super) key: String,

    /// Among how many of the last jobs those are sought that had the key: only claimed keys are in an index
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(super) look_at: u32,

    #[command(flatten)]
    pub(super) queue: QueueArguments,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  uniqueue unique show rebuild_index
  uniqueue unique show 71f9344b                         the key that begins so
  uniqueue unique show 019ab3c5-7d10-7cc2-a1d4-6f7f4f1f0a55 --json

Exit codes:
  0    told, whether somebody claims the key or not
  1    no job that was looked at has the key
  2    a wrong command line, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Make the job that claims a key give up its claim, for good.
///
/// The job goes on, and the next insert with the key goes in: two jobs that are the same may then run side by side. It asks
/// first.
#[derive(Debug, Args)]
#[command(after_help = RELEASE_EXAMPLES)]
pub(super) struct ReleaseArguments {
    /// The key, in full; one that begins with a dash goes last, after --
    pub(super) key: String,

    /// Only say whose claim it is
    #[arg(long, conflicts_with = "yes")]
    pub(super) dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,

    #[command(flatten)]
    pub(super) queue: QueueArguments,
}

const RELEASE_EXAMPLES: &str = "\
Examples:
  uniqueue unique release rebuild_index --dry-run
  uniqueue unique release rebuild_index --yes

Exit codes:
  0    released; with --dry-run, somebody claims the key
  1    nobody claims the key, or the answer was no
  2    a wrong command line, nobody to ask, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Count suppressed duplicates of a kind, and list what was counted.
///
/// A duplicate writes nothing, unless its kind is audited: then it is counted, by its key. Without --start and --stop it
/// lists the kinds, and the keys with the latest duplicates.
#[derive(Debug, Args)]
#[command(after_help = AUDIT_EXAMPLES)]
pub(super) struct AuditArguments {
    /// Only this kind
    pub(super) kind: Option<String>,

    /// Count the kind's duplicates from now on
    #[arg(long, requires = "kind", conflicts_with = "stop")]
    pub(super) start: bool,

    /// Count them no more; what was counted stays until its time is over
    #[arg(long, requires = "kind")]
    pub(super) stop: bool,

    /// How long the counter of a key is kept after its last duplicate [default: as it was, at first 7d]
    #[arg(long, value_name = "SPAN", requires = "start")]
    pub(super) keep: Option<Span>,

    /// How many keys at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) limit: u32,

    #[command(flatten)]
    pub(super) queue: QueueArguments,
}

const AUDIT_EXAMPLES: &str = "\
Examples:
  uniqueue unique audit email.send --start --keep 30d
  uniqueue unique audit
  uniqueue unique audit email.send --limit 100 --json
  uniqueue unique audit email.send --stop

Exit codes:
  0    done
  1    nothing can be counted now: no runner folds what was noted
  2    a wrong command line, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end";

/// Give jobs that are queued already the keys of a new or changed policy.
///
/// First deploy the code that inserts with the policy, then run this, with --dry-run before. It goes from the oldest job to
/// the youngest in small transactions while workers and inserters go on; killed, it can be run again. Of several jobs with
/// one key the oldest claims it.
#[derive(Debug, Args)]
#[command(after_help = BACKFILL_EXAMPLES)]
pub(super) struct BackfillArguments {
    /// The kind of the jobs
    #[arg(long, value_name = "KIND")]
    pub(super) kind: String,

    /// The policy: a document as in `insert_job`, or the file that holds it
    #[arg(long, value_name = "FILE|JSON")]
    pub(super) policy: String,

    /// Change nothing, and say what would become of the jobs
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Also change jobs that carry another key, or this one on other terms
    #[arg(long)]
    pub(super) rekey: bool,

    /// What becomes of a job whose key another job claims
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub(super) on_collision: Collisions,

    /// How many jobs are changed in one transaction, at most 2000
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(super) batch: u32,

    /// Do not ask before jobs are cancelled
    #[arg(long, short)]
    pub(super) yes: bool,

    #[command(flatten)]
    pub(super) queue: QueueArguments,
}

/// As `uniqueue::OnCollision`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Collisions {
    /// It gets the key and goes on without the claim
    #[default]
    GoOn,
    /// It is cancelled if it waits
    Cancel,
}

const BACKFILL_EXAMPLES: &str = "\
Examples:
  uniqueue unique backfill --kind email.send --policy '{\"keys\": [\"args\"]}' --dry-run
  uniqueue unique backfill --kind email.send --policy policy.json
  uniqueue unique backfill --kind report.build --policy policy.json --on-collision cancel --yes

Exit codes:
  0    every job of the kind has its key (would have it, with --dry-run), and no collision is left
  1    ran to its end, and some job has not, or shares its key with a holder; the report says which
  2    a wrong command line or policy, nobody to ask, or the database failed
  130  interrupted by Ctrl-C or SIGTERM before the end: run it again";
