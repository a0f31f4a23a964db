//! `uniqueue unique backfill`, and how it and `uniqueue queue backfill` run and report.

use uniqueue_admin::{Backfill, BackfillReport, OnCollision};

use crate::prelude::*;

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
    kind: String,

    /// The policy: a document as in `insert_job`, or the name of a file that holds one
    #[arg(long, value_name = "JSON|FILE")]
    policy: PolicyArgument,

    /// Change nothing, and print what would change
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Also change jobs that have another key, or the same key with another policy
    #[arg(long)]
    rekey: bool,

    /// How to treat a job whose key another job claims
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    on_collision: Collisions,

    /// The number of jobs in one transaction, at most 2000
    #[arg(long, value_name = "N", default_value_t = 200)]
    batch: u32,

    /// Do not ask for confirmation before jobs are cancelled
    #[arg(long, short)]
    yes: bool,
}

/// The values of `uniqueue::OnCollision`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Collisions {
    /// The job gets the key and goes on without the claim
    #[default]
    GoOn,
    /// The job is cancelled if it waits
    Cancel,
}

/// The state that an interrupted backfill leaves.
pub(crate) fn left() -> String {
    "finished batches stay; run it again for the rest".to_owned()
}

pub(super) async fn backfill(client: &Client, form: Form, arguments: BackfillArguments) -> Result<Answer, Failure> {
    let BackfillArguments { kind, policy, dry_run, rekey, on_collision, batch, yes } = arguments;
    let policy = policy.policy()?;
    let cancels = on_collision == Collisions::Cancel;
    if cancels && !dry_run && !yes {
        let schema = client.schema();
        let question = format!("Cancel waiting jobs of kind {kind} in schema {schema} whose key another job claims?");
        if !output::confirm(&output::printable(&question), "the change")? {
            return Ok(Answer::of("nothing was changed\n".to_owned()).verdict(Verdict::NotFine));
        }
    }
    let backfill = Backfill::keys_of(client, kind, policy).batch(batch);
    let backfill = backfill.given_flag(cancels, |backfill| backfill.on_collision(OnCollision::Cancel));
    let report = follow(backfill, dry_run, rekey).await?;
    answer(&form, &report, |report| {
        let mut text = text(report, false);
        if dry_run && report.collided > 0 && !cancels {
            let hint =
                "\nhint: jobs that collide go on without the claim; --on-collision cancel cancels the waiting ones\n";
            text.push_str(&output::wrapped(hint));
        }
        text
    })
}

/// Runs a backfill with a bar.
pub(crate) async fn follow(backfill: Backfill<'_>, dry_run: bool, overwrite: bool) -> Result<BackfillReport, Failure> {
    let backfill = backfill.given_flag(dry_run, |backfill| backfill.dry_run());
    let backfill = backfill.given_flag(overwrite, |backfill| backfill.overwrite());
    // The jobs are not counted, so the bar shows thousandths of the time between the oldest and the newest job.
    let bar = Bar::new("backfilling", Some(1_000));
    Ok(backfill.on_progress(move |progress| bar.reach(progress.part)).await?)
}

/// The answer with a report.
pub(crate) fn answer(
    form: &Form,
    report: &BackfillReport,
    text: impl FnOnce(&BackfillReport) -> String,
) -> Result<Answer, Failure> {
    let verdict = if report.is_settled() { Verdict::Fine } else { Verdict::NotFine };
    Ok(form.object(report, text)?.verdict(verdict))
}

/// A report on keys or on groups.
pub(crate) fn text(report: &BackfillReport, of_groups: bool) -> String {
    let BackfillReport { dry_run, jobs, unchanged, .. } = report;
    let (would, gets) = if *dry_run { ("would ", "get") } else { ("", "got") };
    let (given, what) = if of_groups { (report.grouped, "a group") } else { (report.claimed, "a key and claim it") };
    let mut record = Record::new();
    record.field("kind", report.kind.as_str());
    record.field("jobs", output::count(*jobs));
    record.field(format!("{would}{gets} {what}"), output::count(given));
    record.field("have it already", output::count(*unchanged));
    let unclaimed = format!("{would}{gets} a key, claim nothing now");
    let cancelled = if *dry_run { "of these would be cancelled" } else { "of these were cancelled" };
    for (name, count, style) in [
        (unclaimed.as_str(), report.unclaimed, Style::Plain),
        ("have another key or policy (--rekey)", report.other_key, Style::Warn),
        ("collide with a holder", report.collided, Style::Warn),
        (cancelled, report.cancelled, Style::Warn),
        ("have another group, limit or order (--regroup)", report.other_group, Style::Warn),
        ("run without it: run it again when they have ended", report.running, Style::Warn),
        ("the policy makes no key for", report.unfit, Style::Bad),
        ("locked by other transactions: run it again", report.contested, Style::Warn),
    ] {
        if count > 0 {
            record.field(name, Cell::new(output::count(count)).style(style));
        }
    }
    let mut text = format!("{}\n", record.draw());
    if !report.collisions.is_empty() {
        let table = List::of(&report.collisions)
            .column(Column::text("job"), |of| of.job.to_string())
            .column(Column::text("state"), |of| of.state.as_str())
            .column(Column::text("holder"), |of| of.holder.to_string())
            .column(Column::long("unique key"), |of| &of.unique_key)
            .table();
        text.push_str(&format!("\n{}", table.text()));
    }
    if !report.unfit_jobs.is_empty() {
        let table = List::of(&report.unfit_jobs)
            .column(Column::text("job"), |of| of.job.to_string())
            .column(Column::long("problem"), |of| &of.problem)
            .table();
        text.push_str(&format!("\n{}", table.text()));
    }
    text
}
