//! `uniqueue unique explain`.

use serde::Serialize;
use serde_json::Value;
use uniqueue::{Explanation, NewJob};

use super::args::ExplainArguments;
use super::trial::{Blocker, would_wait};
use crate::database::Database;
use crate::failure::Failure;
use crate::group_text::add_group;
use crate::output::{self, Cell, Record, Style};
use crate::policy_argument::policy_of_key;
use crate::verdict::Verdict;

/// The output with --json.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    /// The transaction that the insert would wait for first.
    waits_for: Option<Blocker>,
}

pub(super) async fn run(arguments: ExplainArguments) -> Result<Verdict, Failure> {
    let ExplainArguments { kind, args, queue, meta, scheduled_at, policy, key, database } = arguments;
    let mut job = NewJob::new(&kind, &args.value("--args")?).queue(queue);
    let meta = match meta.value("--meta")? {
        Value::Object(members) => members,
        other => {
            let hint = "give an object such as '{\"tenant\": 7}'";
            return Err(Failure::refused(format!("--meta is not an object: {other}"), hint));
        }
    };
    for (name, value) in meta {
        job = job.meta(name, value);
    }
    job = match (policy, key) {
        (Some(policy), _) => job.unique(policy.policy()?),
        (None, key) => job.unique(policy_of_key(&key.unwrap_or_default())?),
    };
    let json = database.json;
    let database = Database::open_migrated(&database).await?;
    if let Some(at) = scheduled_at {
        job = job.scheduled_at(at.at(database.client.database_time().await?));
    }
    let explanation = database.client.explain(job.clone()).await?;
    let waits_for = match (explanation.would_insert, &explanation.holder, &explanation.unique_key) {
        (true, None, Some(_)) => would_wait(&database.client, job).await?,
        _ => None,
    };
    let holder = match &explanation.holder {
        Some(holder) if !json => database.client.job(holder.holder).await?,
        _ => None,
    };
    let is_inserted_at_once = explanation.would_insert && waits_for.is_none();
    if json {
        output::print_json(&Report { explanation: &explanation, waits_for })?;
    } else {
        let mut record = text(&explanation, waits_for.as_ref());
        if let Some(holder) = holder {
            add_group(&mut record, &database.client, &holder).await?;
        }
        output::print(&format!("{}\n", record.draw()))?;
    }
    database.close().await?;
    Ok(if is_inserted_at_once { Verdict::Fine } else { Verdict::NotFine })
}

fn text(explanation: &Explanation, waits_for: Option<&Blocker>) -> Record {
    let Explanation { canonical, unique_key, would_insert, would_update, holder, .. } = explanation;
    let mut record = Record::new();
    record.optional_field("canonical", canonical.as_ref());
    record.optional_field("unique key", unique_key.as_ref());
    let answer = match (would_insert, holder, waits_for) {
        (true, None, Some(blocker)) => {
            let waits = format!("would wait for {}, which holds the key", blocker.text());
            Cell::new(waits).style(Style::Warn)
        }
        (true, None, None) => Cell::new("would be inserted: no job claims the key").style(Style::Good),
        (true, Some(_), _) => Cell::new("would be inserted, and replace the holder").style(Style::Good),
        (false, Some(_), _) if *would_update => Cell::new("would update the holder").style(Style::Good),
        (false, _, _) => Cell::new("would be a duplicate: another job claims the key").style(Style::Warn),
    };
    record.field("the job", answer);
    if let Some(holder) = holder {
        record.field("holder", holder.holder.to_string());
        record.field("its state", holder.holder_state.to_string());
        record.field("its age", output::format_duration(holder.holder_age));
        record.field("claims in", holder.claims_in.to_string());
        record.field("free", holder.frees());
    }
    record
}
