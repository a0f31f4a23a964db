//! `uniqueue unique holders`.

use serde::Serialize;
use uniqueue::KeyHolder;

use super::args::HoldersArguments;
use crate::Verdict;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Column, Style, Table};

/// A claim as JSON shows it.
#[derive(Debug, Serialize)]
pub(super) struct Shown<'a> {
    #[serde(flatten)]
    holder: &'a KeyHolder,
    /// When the key is free, as a sentence.
    frees: String,
}

impl<'a> Shown<'a> {
    pub(super) fn new(holder: &'a KeyHolder) -> Self {
        Self { holder, frees: holder.claim.frees() }
    }
}

pub(super) async fn run(arguments: HoldersArguments) -> Result<Verdict, Failure> {
    let HoldersArguments { prefix, kind, queue_name, after, limit, queue } = arguments;
    let database = Database::open_migrated(&queue).await?;
    let mut claims = database.client.claims().limit(limit);
    if let Some(prefix) = prefix {
        claims = claims.prefix(prefix);
    }
    if let Some(kind) = kind {
        claims = claims.kind(kind);
    }
    if let Some(name) = queue_name {
        claims = claims.queue(name);
    }
    if let Some(key) = after {
        claims = claims.after(key);
    }
    let holders = claims.await?;
    database.close().await?;
    if queue.json {
        output::print(&output::json_lines(holders.iter().map(Shown::new))?)?;
        return Ok(Verdict::Fine);
    }
    let mut table = Table::new([
        Column::text("unique key"),
        Column::text("holder"),
        Column::text("kind"),
        Column::text("queue"),
        Column::text("state"),
        Column::number("age"),
        Column::long("free"),
    ]);
    for KeyHolder { claim, kind, queue, .. } in &holders {
        table.row([
            claim.unique_key.clone(),
            claim.holder.to_string(),
            kind.to_string(),
            queue.to_string(),
            claim.holder_state.to_string(),
            output::span(claim.holder_age),
            claim.frees(),
        ]);
    }
    output::print(&table.text())?;
    if let Some(last) = holders.last().filter(|_| holders.len() == limit as usize) {
        let next = format!("there may be more: --after={}\n", output::shell(&last.claim.unique_key));
        output::print(&output::paint(Style::Faint, &next))?;
    }
    Ok(Verdict::Fine)
}
