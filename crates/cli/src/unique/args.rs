//! The arguments of `uniqueue unique`.

use clap::{Args, Subcommand, ValueEnum};

use crate::database::DatabaseArguments;
use crate::json_argument::{JsonArgument, PolicyArgument, unique_key};
use crate::time_argument::{DurationArgument, TimeArgument};

/// Show unique keys and their holders, release a key, count duplicates, give keys to queued jobs.
///
/// A key is claimed by at most one job at a time, its holder. An insert that meets a holder is a duplicate.
///
/// Examples:
///   uniqueue unique show 71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f
///   uniqueue unique holders --kind email.send
///   uniqueue unique explain email.send --args '{"user_id": 42}' --policy '{"keys": ["args"]}'
///   uniqueue unique backfill --kind email.send --policy policy.json --dry-run
///
/// Exit codes:
///   1    ran to its end and found something wrong (each command says when)
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UniqueArguments {
    #[command(subcommand)]
    pub(super) command: UniqueCommand,

    #[command(flatten)]
    pub(super) database: DatabaseArguments,
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

/// Explain what an insert would do, without doing it.
///
/// It makes the key as the insert would, from the kind, the policy and the database's time, and finds the key's holder. It
/// says what the insert would do: insert the job, replace or update the holder, or return it as a duplicate. It takes no lock
/// and writes nothing, so another transaction may change the answer at any time. Options that are left
/// out have the values of the registered kind (`uniqueue kind list`).
///
/// Examples:
///   uniqueue unique explain email.send --args '{"user_id": 42}' --policy '{"keys": ["args"]}'
///   uniqueue unique explain email.send --args '{"user_id": 42}'    by the policy of the registered kind
///   uniqueue unique explain report.build --args @args.json --policy policy.json --json
///   uniqueue unique explain rebuild --key rebuild_index || echo 'the key is held'
///
/// Exit codes:
///   0    the job would be inserted
///   1    no job would be inserted, because another job claims the key; or the insert would wait for an open transaction
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ExplainArguments {
    /// The job's kind
    pub(super) kind: String,

    /// The job's args; also @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(super) args: JsonArgument,

    /// The job's queue [default: the kind's, else default]
    #[arg(long, value_name = "NAME")]
    pub(super) queue: Option<String>,

    /// The job's meta, a JSON object; also @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(super) meta: JsonArgument,

    /// The time at which the job is scheduled, which decides its window [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) scheduled_at: Option<TimeArgument>,

    /// The policy: a document as in `insert_job`, or the name of a file that holds one; null: the job is not unique
    /// [default: the kind's]
    #[arg(long, value_name = "JSON|FILE")]
    pub(super) policy: Option<PolicyArgument>,

    /// A raw key, short for the policy {"key": …}
    #[arg(long, value_name = "KEY", conflicts_with = "policy", value_parser = unique_key)]
    pub(super) key: Option<String>,
}

/// List the claimed keys and their holders.
///
/// The list is in the order of the keys. A page starts where the last one ended (--after), so every page is as fast as the
/// first. With --kind or --queue it reads claim by claim until the page is full.
///
/// Examples:
///   uniqueue unique holders
///   uniqueue unique holders --kind email.send --limit 1000 --json | jq -r .unique_key
///   uniqueue unique holders --prefix sync: --after sync:4711
///
/// Exit codes:
///   0    listed, even if no key matched
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct HoldersArguments {
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT")]
    pub(super) prefix: Option<String>,

    /// Only holders of this kind
    #[arg(long, value_name = "KIND")]
    pub(super) kind: Option<String>,

    /// Only holders in this queue
    #[arg(long, value_name = "NAME")]
    pub(super) queue: Option<String>,

    /// Start after this key, the last of the previous page
    #[arg(long, value_name = "KEY")]
    pub(super) after: Option<String>,

    /// The largest number of keys
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) limit: u32,
}

/// Show everything about one key: its holder, when it is free, its jobs, and the inserts that wait for it.
///
/// KEY is the text of the key, usually the 64 hexadecimal digits of a hash. The first eight or more digits are enough if only
/// one claimed key begins with them. The id of a job stands for the key of that job.
///
/// Examples:
///   uniqueue unique show rebuild_index
///   uniqueue unique show 71f9344b                         the key with this prefix
///   uniqueue unique show 019ab3c5-7d10-7cc2-a1d4-6f7f4f1f0a55 --json
///
/// Exit codes:
///   0    shown, whether or not a job claims the key
///   1    no job that was searched has the key
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ShowArguments {
    /// The key, or the id of a job that has it; a key that begins with a dash comes last, after --
    #[arg(value_parser = unique_key)]
    pub(super) key: String,

    /// How many of the newest jobs to search for the key; the index holds claimed keys only
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(super) search: u32,
}

/// Release a key from the job that claims it, for good.
///
/// The job goes on, and the next insert with the key is no duplicate, so two jobs with the same key may run at once. The
/// command asks for confirmation.
///
/// Examples:
///   uniqueue unique release rebuild_index --dry-run
///   uniqueue unique release rebuild_index --yes
///
/// Exit codes:
///   0    released; with --dry-run, a job claims the key
///   1    no job claims the key, or the answer was no
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ReleaseArguments {
    /// The key in full; a key that begins with a dash comes last, after --
    #[arg(value_parser = unique_key)]
    pub(super) key: String,

    /// Only print which job claims the key
    #[arg(long, conflicts_with = "yes")]
    pub(super) dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// Count the suppressed duplicates of a kind, and list the counts.
///
/// A duplicate normally writes nothing. If its kind is audited, it is counted by its key. Without --start and --stop the
/// command lists the kinds, and the keys with the latest duplicates.
///
/// Examples:
///   uniqueue unique audit email.send --start --keep 30d
///   uniqueue unique audit
///   uniqueue unique audit email.send --limit 100 --json
///   uniqueue unique audit email.send --stop
///
/// Exit codes:
///   1    nothing can be counted now: the buffer is full, because no runner empties it
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct AuditArguments {
    /// Only this kind
    pub(super) kind: Option<String>,

    /// Count the kind's duplicates from now on
    #[arg(long, requires = "kind", conflicts_with = "stop")]
    pub(super) start: bool,

    /// Stop counting; the counts stay until their retention ends
    #[arg(long, requires = "kind")]
    pub(super) stop: bool,

    /// How long the counter of a key is kept after its last duplicate [default: unchanged, at first 7d]
    #[arg(long, value_name = "DURATION", requires = "start")]
    pub(super) keep: Option<DurationArgument>,

    /// The largest number of keys
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) limit: u32,
}

/// Give queued jobs the keys of a new or changed policy.
///
/// First deploy the code that inserts with the policy. Then run this command with --dry-run, and then without. It goes from
/// the oldest job to the newest in small transactions, while workers and inserts go on. After an interrupt, run it again. Of
/// several jobs with the same key the oldest claims it.
///
/// Examples:
///   uniqueue unique backfill --kind email.send --policy '{"keys": ["args"]}' --dry-run
///   uniqueue unique backfill --kind email.send --policy policy.json
///   uniqueue unique backfill --kind report.build --policy policy.json --on-collision cancel --yes
///
/// Exit codes:
///   0    every job of the kind has its key (with --dry-run: would have it), and there is no collision
///   1    ran to its end, but a job has no key, or its key is held by another job; the report lists the jobs
///   130  interrupted by Ctrl-C or SIGTERM before the end; run it again
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct BackfillArguments {
    /// The kind of the jobs
    #[arg(long, value_name = "KIND")]
    pub(super) kind: String,

    /// The policy: a document as in `insert_job`, or the name of a file that holds one
    #[arg(long, value_name = "JSON|FILE")]
    pub(super) policy: PolicyArgument,

    /// Change nothing, and print what would change
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Also change jobs that have another key, or the same key with another policy
    #[arg(long)]
    pub(super) rekey: bool,

    /// How to treat a job whose key another job claims
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub(super) on_collision: Collisions,

    /// The number of jobs in one transaction, at most 2000
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(super) batch: u32,

    /// Do not ask for confirmation before jobs are cancelled
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// The values of `uniqueue::OnCollision`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Collisions {
    /// The job gets the key and goes on without the claim
    #[default]
    GoOn,
    /// The job is cancelled if it waits
    Cancel,
}
