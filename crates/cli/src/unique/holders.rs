//! `uniqueue unique holders`.

use serde::Serialize;
use uniqueue_admin::{Admin, Given, KeyHolder};

use super::args::HoldersArguments;
use crate::database::{DatabaseArguments, ask};
use crate::exit::{Failure, Verdict};
use crate::output::{self, Column, List, Page, Table};

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

pub(super) async fn run(arguments: HoldersArguments, database: &DatabaseArguments) -> Result<Verdict, Failure> {
    let HoldersArguments { prefix, kind, queue, after, limit } = arguments;
    ask(database, async |client, form| {
        let claims = Admin::new(client).claims().limit(limit);
        let claims = claims.given(prefix, |claims, prefix| claims.prefix(&prefix));
        let claims = claims.given(kind, |claims, kind| claims.kind(kind));
        let claims = claims.given(queue, |claims, queue| claims.queue(queue));
        let holders = claims.given(after, |claims, key| claims.after(key)).await?;
        let ids = holders.iter().map(|holder| holder.claim.unique_key.clone()).collect();
        let lines: Vec<_> = holders.iter().map(ClaimLine::new).collect();
        Ok(form.list(&lines, |_| table(&holders))?.page(Page { limit, is_oldest_first: true, ids }))
    })
    .await
}

fn table(holders: &[KeyHolder]) -> Table {
    List::of(holders)
        .column(Column::text("unique key"), |of| &of.claim.unique_key)
        .column(Column::text("holder"), |of| of.claim.holder.to_string())
        .column(Column::text("kind"), |of| &of.kind)
        .column(Column::text("queue"), |of| &of.queue)
        .column(Column::text("state"), |of| of.claim.holder_state.as_str())
        .column(Column::number("age"), |of| output::format_duration(of.claim.holder_age))
        .column(Column::long("free"), |of| of.claim.frees())
        .table()
}
