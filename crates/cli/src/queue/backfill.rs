//! `uniqueue queue backfill`.

use clap::ArgGroup;
use uniqueue::UniqueKey;
use uniqueue_admin::Backfill;

use crate::prelude::*;
use crate::unique::backfill as keys;

/// Put waiting jobs in the groups of a new or changed policy.
///
/// First deploy the code that inserts with the group. Then run this command with --dry-run, and then without. It goes from
/// the oldest job to the newest in small transactions, while workers and inserts go on. Running jobs are left as they are.
/// After an interrupt, run it again.
///
/// ***
///
/// With --json it prints one object: {"kind", "dry_run", "jobs", "unchanged", "grouped", "other_group", "running",
/// "unfit", "contested", "unfit_jobs": [{"job", "problem"}]}, and the counts of keys, which are 0.
///
/// Examples:
///   uniqueue queue backfill --kind sync --policy '{"keys": ["args"], "args_keys": ["customer"]}' --group-limit 3 --dry-run
///   uniqueue queue backfill --kind order.step --policy policy.json --in-order
///   uniqueue queue backfill --kind sync --group all --group-limit 10 --regroup
///
/// Exit codes:
///   0    every job of the kind that is not final has its group (with --dry-run: would have it)
///   1    ran to its end, but a job has another group or none
///   130  interrupted by Ctrl-C or SIGTERM before the end; run it again
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(verbatim_doc_comment)]
pub(super) struct BackfillArguments {
    /// The kind of the jobs
    #[arg(long, value_name = "KIND")]
    kind: String,

    /// The policy of the group's key: a document as in `insert_job`, or the name of a file that holds one
    #[arg(long, value_name = "JSON|FILE", group = "source")]
    policy: Option<PolicyArgument>,

    /// One group for all the jobs: 1 to 512 bytes
    #[arg(long, value_name = "KEY", group = "source")]
    group: Option<String>,

    /// Start the jobs only while fewer jobs of their group run
    #[arg(long, value_name = "N")]
    group_limit: Option<u16>,

    /// Run the jobs of a group one at a time, in their order
    #[arg(long)]
    in_order: bool,

    /// Change nothing, and print what would change
    #[arg(long)]
    dry_run: bool,

    /// Also change jobs that have another group, or the same group with another limit or order
    #[arg(long)]
    regroup: bool,

    /// The number of jobs in one transaction, at most 2000
    #[arg(long, value_name = "N", default_value_t = 200)]
    batch: u32,
}

/// Puts jobs in groups.
pub(super) async fn run(arguments: BackfillArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let left = if arguments.dry_run { nothing_changed } else { keys::left };
    or_interrupted(left, backfill(arguments, database)).await
}

async fn backfill(arguments: BackfillArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let BackfillArguments { kind, policy, group, group_limit, in_order, dry_run, regroup, batch } = arguments;
    let policy = match (policy, group) {
        (Some(policy), _) => policy.policy()?,
        (None, group) => UniqueKey::raw(group.unwrap_or_default()).into(),
    };
    ask(database, async |client, form| {
        let backfill = Backfill::groups_of(client, kind, policy).batch(batch);
        let backfill = backfill.given(group_limit, |backfill, limit| backfill.limit(limit));
        let backfill = backfill.given_flag(in_order, |backfill| backfill.in_order());
        let report = keys::follow(backfill, dry_run, regroup).await?;
        keys::answer(&form, &report, |report| keys::text(report, true))
    })
    .await
}
