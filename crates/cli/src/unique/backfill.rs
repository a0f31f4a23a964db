//! `uniqueue unique backfill`.

use uniqueue::{BackfillReport, OnCollision};

use super::args::{BackfillArguments, Collisions};
use super::policy;
use crate::Verdict;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Answer, Bar, Cell, Column, Record, Style, Table};

/// What is left when somebody interrupts it.
pub(super) fn left() -> String {
    "batches that were done stay; run it again to go on".to_owned()
}

pub(super) async fn run(arguments: BackfillArguments) -> Result<Verdict, Failure> {
    let BackfillArguments { kind, policy, dry_run, rekey, on_collision, batch, yes, queue } = arguments;
    let policy = policy::read(&policy)?;
    let database = Database::open_migrated(&queue).await?;
    let cancels = on_collision == Collisions::Cancel;
    if cancels && !dry_run && !yes {
        match output::ask("Cancel waiting jobs whose key another job claims?")? {
            Answer::Yes => {}
            Answer::No => {
                output::print("nothing was changed\n")?;
                return Ok(Verdict::NotFine);
            }
            Answer::Nobody => {
                return Err(Failure::refused("there is nobody to ask", "give --yes, or --dry-run to look first"));
            }
        }
    }
    let mut backfill = database.client.backfill_kind(kind, policy).batch(batch);
    if dry_run {
        backfill = backfill.dry_run();
    }
    if rekey {
        backfill = backfill.rekey();
    }
    if cancels {
        backfill = backfill.on_collision(OnCollision::Cancel);
    }
    // In thousandths of the time between the oldest job and the youngest: nobody counted the jobs.
    let bar = Bar::new("going through the jobs", Some(1_000));
    let mut shown = 0;
    let report = backfill
        .on_progress(move |progress| {
            let part = (progress.part * 1_000.0) as u64;
            bar.advance(part.saturating_sub(shown));
            shown = shown.max(part);
        })
        .await?;
    database.close().await?;
    if queue.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report, on_collision))?;
    }
    Ok(if report.is_settled() { Verdict::Fine } else { Verdict::NotFine })
}

fn text(report: &BackfillReport, on_collision: Collisions) -> String {
    let BackfillReport { dry_run, jobs, unchanged, claimed, unclaimed, other_key, .. } = report;
    let (would, gets) = if *dry_run { ("would ", "get") } else { ("", "got") };
    let mut record = Record::new();
    record.cell("kind", report.kind.as_str());
    record.cell("jobs", output::count(*jobs));
    record.cell(format!("{would}{gets} a key and claim it"), output::count(*claimed));
    record.cell("have it already", output::count(*unchanged));
    let mut seldom = |name: String, count: u64, style: Style| {
        if count > 0 {
            record.cell(name, Cell::new(output::count(count)).style(style));
        }
    };
    seldom(format!("{would}{gets} a key, claim nothing now"), *unclaimed, Style::Plain);
    seldom("carry another key or terms (--rekey)".to_owned(), *other_key, Style::Warn);
    seldom("collide with a holder".to_owned(), report.collided, Style::Warn);
    let cancelled = if *dry_run { "of these would be cancelled" } else { "of these were cancelled" };
    seldom(cancelled.to_owned(), report.cancelled, Style::Warn);
    seldom("the policy makes no key of".to_owned(), report.unfit, Style::Bad);
    seldom("held fast by others: run it again".to_owned(), report.contested, Style::Warn);
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
    if !report.unfit_jobs.is_empty() {
        let mut table = Table::new([Column::text("job"), Column::long("problem")]);
        for unfit in &report.unfit_jobs {
            table.row([unfit.job.to_string(), unfit.problem.clone()]);
        }
        text.push_str(&format!("\n{}", table.text()));
    }
    if *dry_run && report.collided > 0 && on_collision == Collisions::GoOn {
        text.push_str(
            "\nhint: jobs that collide go on without the claim; --on-collision cancel cancels those that wait\n",
        );
    }
    text
}
