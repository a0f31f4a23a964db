//! `uniqueue unique explain`.

use serde::Serialize;
use uniqueue::{Explanation, InsertOutcome, JobState, NewJob};
use uniqueue_admin::{Admin, Given};

use super::args::ExplainArguments;
use super::trial::{Blocker, would_wait};
use crate::database::{DatabaseArguments, ask};
use crate::exit::{Failure, Verdict};
use crate::group_text::add_group;
use crate::json_argument::policy_of_key;
use crate::output::{self, Cell, Record, Style};

/// The output with --json.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    /// The transaction that the insert would wait for first.
    waits_for: Option<Blocker>,
}

pub(super) async fn run(arguments: ExplainArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let ExplainArguments { kind, args, queue, meta, scheduled_at, policy, key } = arguments;
    let mut job = NewJob::new(&kind, &args.value("--args")?).given(queue, NewJob::queue);
    for (name, value) in meta.members("--meta")? {
        job = job.meta(name, value);
    }
    if let Some(policy) = policy {
        job = match policy.policy_or_none("--policy")? {
            Some(policy) => job.unique(policy),
            None => job.not_unique(),
        };
    }
    if let Some(key) = key {
        job = job.unique(policy_of_key(&key)?);
    }
    ask(database, async |client, form| {
        job = client.fill_in(job).await?;
        if let Some(at) = scheduled_at {
            job = job.scheduled_at(at.at(client.database_time().await?));
        }
        let explanation = client.explain(job.clone()).await?;
        let waits_for = match (&explanation.holder, &explanation.unique_key) {
            (None, Some(_)) => would_wait(client, job).await?,
            _ => None,
        };
        let mut record = text(&explanation, waits_for.as_ref());
        if let Some(holder) = explanation.holder.as_ref().filter(|_| !form.json)
            && let Some(holder) = client.job(holder.holder).await?
        {
            add_group(&mut record, client, &holder).await?;
            let first = Admin::new(client).why(holder.id).await?.into_iter().next();
            let waits = first.filter(|first| first.code.is_obstacle());
            record.optional_field("why it waits", waits.map(|first| first.reason));
        }
        let is_inserted_at_once = explanation.outcome == InsertOutcome::Inserted && waits_for.is_none();
        let report = Report { explanation: &explanation, waits_for };
        let answer = form.object(&report, |_| format!("{}\n", record.draw()))?;
        Ok(if is_inserted_at_once { answer } else { answer.verdict(Verdict::NotFine) })
    })
    .await
}

fn text(explanation: &Explanation, waits_for: Option<&Blocker>) -> Record {
    let Explanation { canonical, unique_key, would_claim_in, holder, new_args, new_scheduled_at, .. } = explanation;
    let mut record = Record::new();
    record.optional_field("canonical", canonical.as_ref());
    record.optional_field("unique key", unique_key.as_ref());
    record.field("the job", answer(explanation, waits_for));
    if unique_key.is_some() {
        record.field("its claim", format!("while {would_claim_in}"));
    }
    if let Some(holder) = holder {
        record.field("holder", holder.holder.to_string());
        record.field("its state", holder.holder_state.to_string());
        record.field("its age", output::format_duration(holder.holder_age));
        record.field("claims in", holder.claims_in.to_string());
        record.field("free", holder.frees());
    }
    record.optional_field("its new args", new_args.as_ref().map(|args| args.get()));
    record.optional_field("its new due time", new_scheduled_at.map(output::format_time));
    record
}

/// The effect that the insert would have.
fn answer(explanation: &Explanation, waits_for: Option<&Blocker>) -> Cell {
    let Explanation { outcome, unique_key, replaced, holder, .. } = explanation;
    let state = holder.as_ref().map(|holder| holder.holder_state);
    let (text, style) = match (outcome, state, waits_for) {
        (_, None, Some(blocker)) => {
            return Cell::new(format!("would wait for {}, which holds the key", blocker.text())).style(Style::Warn);
        }
        (InsertOutcome::Inserted, None, None) if unique_key.is_none() => {
            ("would be inserted: it is not unique, since neither the kind nor --policy says how", Style::Good)
        }
        (InsertOutcome::Inserted, None, None) => ("would be inserted: no job claims the key", Style::Good),
        (InsertOutcome::Inserted, Some(JobState::Running), _) if replaced.is_some() => {
            ("would be inserted, and replace the holder, which runs and is cancelled", Style::Warn)
        }
        (InsertOutcome::Inserted, _, _) if replaced.is_some() => {
            ("would be inserted, and replace the holder", Style::Good)
        }
        (InsertOutcome::Inserted, _, _) => {
            ("would be inserted: the holder is full, and gives up its claim", Style::Good)
        }
        (InsertOutcome::Updated, _, _) => ("would update the holder", Style::Good),
        (InsertOutcome::Covered, _, _) => {
            ("would be covered: the holder starts after the insert has committed", Style::Good)
        }
        (InsertOutcome::Duplicate, _, _) => ("would be a duplicate: another job claims the key", Style::Warn),
        (InsertOutcome::Rejected, _, _) => ("would be rejected: another job claims the key", Style::Warn),
    };
    Cell::new(text).style(style)
}
