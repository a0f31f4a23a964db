//! `uniqueue unique backfill`.

use uniqueue::{BackfillReport, OnCollision, UnfitJob};

use super::args::{BackfillArguments, Collisions};
use crate::ask::ask;
use crate::failure::Failure;
use crate::given::Given;
use crate::output::{self, Answer, Bar, Cell, Column, Record, Style, Table};
use crate::verdict::Verdict;

/// The state that an interrupted backfill leaves.
pub(crate) fn left() -> String {
    "finished batches stay; run it again for the rest".to_owned()
}

pub(super) async fn run(arguments: BackfillArguments) -> Result<Verdict, Failure> {
    let BackfillArguments { kind, policy, dry_run, rekey, on_collision, batch, yes, database } = arguments;
    let policy = policy.policy()?;
    ask(&database, async |client, form| {
        let cancels = on_collision == Collisions::Cancel;
        if cancels && !dry_run && !yes {
            let schema = client.schema();
            let question =
                format!("Cancel waiting jobs of kind {kind} in schema {schema} whose key another job claims?");
            if !output::confirm(&output::printable(&question), "the change")? {
                output::print("nothing was changed\n")?;
                return Ok(Answer::from(Verdict::NotFine));
            }
        }
        let backfill = client.backfill_kind(kind, policy).batch(batch);
        let backfill = backfill.given_flag(dry_run, |backfill| backfill.dry_run());
        let backfill = backfill.given_flag(rekey, |backfill| backfill.rekey());
        let backfill = backfill.given_flag(cancels, |backfill| backfill.on_collision(OnCollision::Cancel));
        // The jobs are not counted, so the bar shows thousandths of the time between the oldest and the newest job.
        let bar = Bar::new("backfilling", Some(1_000));
        let report = backfill.on_progress(move |progress| bar.reach(progress.part)).await?;
        let verdict = if report.is_settled() { Verdict::Fine } else { Verdict::NotFine };
        Ok(form.object(&report, |report| text(report, on_collision))?.verdict(verdict))
    })
    .await
}

fn text(report: &BackfillReport, on_collision: Collisions) -> String {
    let BackfillReport { dry_run, jobs, unchanged, claimed, unclaimed, other_key, .. } = report;
    let (would, gets) = if *dry_run { ("would ", "get") } else { ("", "got") };
    let mut record = Record::new();
    record.field("kind", report.kind.as_str());
    record.field("jobs", output::count(*jobs));
    record.field(format!("{would}{gets} a key and claim it"), output::count(*claimed));
    record.field("have it already", output::count(*unchanged));
    let mut field_unless_zero = |name: String, count: u64, style: Style| {
        if count > 0 {
            record.field(name, Cell::new(output::count(count)).style(style));
        }
    };
    field_unless_zero(format!("{would}{gets} a key, claim nothing now"), *unclaimed, Style::Plain);
    field_unless_zero("have another key or policy (--rekey)".to_owned(), *other_key, Style::Warn);
    field_unless_zero("collide with a holder".to_owned(), report.collided, Style::Warn);
    let cancelled = if *dry_run { "of these would be cancelled" } else { "of these were cancelled" };
    field_unless_zero(cancelled.to_owned(), report.cancelled, Style::Warn);
    field_unless_zero("the policy makes no key for".to_owned(), report.unfit, Style::Bad);
    field_unless_zero("locked by other transactions: run it again".to_owned(), report.contested, Style::Warn);
    let mut text = format!("{}\n", record.draw());
    if !report.collisions.is_empty() {
        let mut table = Table::new([
            Column::text("job"),
            Column::text("state"),
            Column::text("holder"),
            Column::long("unique key"),
        ]);
        for collision in &report.collisions {
            table.row([
                collision.job.to_string(),
                collision.state.to_string(),
                collision.holder.to_string(),
                collision.unique_key.clone(),
            ]);
        }
        text.push_str(&format!("\n{}", table.text()));
    }
    text.push_str(&unfit(&report.unfit_jobs));
    if *dry_run && report.collided > 0 && on_collision == Collisions::GoOn {
        let hint =
            "\nhint: jobs that collide go on without the claim; --on-collision cancel cancels the waiting ones\n";
        text.push_str(&output::wrap_lines(hint, output::width()));
    }
    text
}

/// A table of jobs for which the policy makes no key, if there are any.
pub(crate) fn unfit(jobs: &[UnfitJob]) -> String {
    if jobs.is_empty() {
        return String::new();
    }
    let mut table = Table::new([Column::text("job"), Column::long("problem")]);
    for unfit in jobs {
        table.row([unfit.job.to_string(), unfit.problem.clone()]);
    }
    format!("\n{}", table.text())
}
