//! `uniqueue unique explain`.

use serde_json::Value;
use uniqueue::{Explanation, NewJob, UniqueKey};

use super::args::ExplainArguments;
use super::policy;
use crate::Verdict;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Cell, Record, Style};

pub(super) async fn run(arguments: ExplainArguments) -> Result<Verdict, Failure> {
    let ExplainArguments { kind, args, queue_name, meta, scheduled_at, policy, key, queue } = arguments;
    let mut job = NewJob::new(&kind, &policy::value("--args", &args)?).queue(queue_name);
    let Value::Object(meta) = policy::value("--meta", &meta)? else {
        return Err(Failure::refused(format!("--meta is no JSON object: {meta}"), "such as '{\"tenant\": \"acme\"}'"));
    };
    for (name, value) in meta {
        job = job.meta(name, value);
    }
    job = match (policy, key) {
        (Some(policy), _) => job.unique(policy::read(&policy)?),
        (None, key) => job.unique_key(UniqueKey::raw(key.unwrap_or_default())),
    };
    let database = Database::open_migrated(&queue).await?;
    if let Some(at) = scheduled_at {
        job = job.scheduled_at(at.at(super::show::now(&database).await?));
    }
    let explanation = database.client.explain(job).await?;
    database.close().await?;
    if queue.json {
        output::print_json(&explanation)?;
    } else {
        output::print(&text(&explanation))?;
    }
    Ok(if explanation.would_insert { Verdict::Fine } else { Verdict::NotFine })
}

fn text(explanation: &Explanation) -> String {
    let Explanation { canonical, unique_key, would_insert, holder, .. } = explanation;
    let mut record = Record::new();
    record.some("canonical", canonical.as_ref());
    record.some("unique key", unique_key.as_ref());
    let answer = match (would_insert, holder) {
        (true, None) => Cell::new("would be inserted: nobody claims the key").style(Style::Good),
        (true, Some(_)) => Cell::new("would be inserted, and replace the holder").style(Style::Good),
        (false, _) => Cell::new("would be a duplicate: another job claims the key").style(Style::Warn),
    };
    record.cell("the job", answer);
    if let Some(holder) = holder {
        record.cell("holder", holder.holder.to_string());
        record.cell("its state", holder.holder_state.to_string());
        record.cell("its age", output::span(holder.holder_age));
        record.cell("claims in", holder.claims_in.to_string());
        record.cell("free", holder.frees());
    }
    format!("{}\n", record.draw())
}
