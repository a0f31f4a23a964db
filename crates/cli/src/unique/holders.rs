//! `uniqueue unique holders`.

use serde::Serialize;
use uniqueue::KeyHolder;

use super::args::HoldersArguments;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::{self, Column, Table};
use crate::verdict::Verdict;

/// A claim as JSON.
#[derive(Debug, Serialize)]
struct ClaimLine<'a> {
    #[serde(flatten)]
    holder: &'a KeyHolder,
    /// When the key is free, as text.
    frees: String,
}

impl<'a> ClaimLine<'a> {
    fn new(holder: &'a KeyHolder) -> Self {
        Self { holder, frees: holder.claim.frees() }
    }
}

pub(super) async fn run(arguments: HoldersArguments) -> Result<Verdict, Failure> {
    let HoldersArguments { prefix, kind, queue, after, limit, database } = arguments;
    let json = database.json;
    let database = Database::open_migrated(&database).await?;
    let mut claims = database.client.claims().limit(limit);
    if let Some(prefix) = prefix {
        claims = claims.prefix(prefix);
    }
    if let Some(kind) = kind {
        claims = claims.kind(kind);
    }
    if let Some(name) = queue {
        claims = claims.queue(name);
    }
    if let Some(key) = after {
        claims = claims.after(key);
    }
    let holders = claims.await?;
    database.close().await?;
    if json {
        output::print(&output::json_lines(holders.iter().map(ClaimLine::new))?)?;
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
            output::format_duration(claim.holder_age),
            claim.frees(),
        ]);
    }
    output::print(&table.text())?;
    if let Some(last) = holders.last().filter(|_| holders.len() == limit as usize) {
        output::print(&output::next_page(&last.claim.unique_key))?;
    }
    Ok(Verdict::Fine)
}
