//! `uniqueue unique holders`.

use uniqueue_admin::KeyHolder;

use crate::prelude::*;

/// List the claimed keys and their holders.
///
/// The list is in the order of the keys. A page starts where the last one ended (--after), so every page is as fast as the
/// first. With --kind or --queue it reads claim by claim until the page is full.
///
/// Examples:
///   uniqueue unique holders
///   uniqueue unique holders --kind email.send --limit 1000 --json | jq -r .unique_key
///   uniqueue unique holders --prefix sync: --after sync:4711
///
/// Exit codes:
///   0    listed, even if no key matched
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct HoldersArguments {
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Only holders of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// Only holders in this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// Start after this key, the last of the previous page
    #[arg(long, value_name = "KEY")]
    after: Option<String>,

    /// The largest number of keys
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// A claim as JSON.
#[derive(Debug, Serialize)]
struct ClaimLine<'a> {
    #[serde(flatten)]
    holder: &'a KeyHolder,
    /// When the key is free, as text.
    frees: String,
}

pub(super) async fn holders(client: &Client, form: Form, arguments: HoldersArguments) -> Result<Answer, Failure> {
    let HoldersArguments { prefix, kind, queue, after, limit } = arguments;
    let claims = Admin::new(client).claims().limit(limit);
    let claims = claims.given(prefix, |claims, prefix| claims.prefix(&prefix));
    let claims = claims.given(kind, |claims, kind| claims.kind(kind));
    let claims = claims.given(queue, |claims, queue| claims.queue(queue));
    let holders = claims.given(after, |claims, key| claims.after(key)).await?;
    let ids = holders.iter().map(|holder| holder.claim.unique_key.clone()).collect();
    let lines: Vec<_> = holders.iter().map(|holder| ClaimLine { holder, frees: holder.claim.frees() }).collect();
    Ok(form.list(&lines, |_| table(&holders))?.page(Page { limit, is_oldest_first: true, ids }))
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
