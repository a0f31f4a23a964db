//! Claimed keys, by prefix.

use maud::html;

use crate::failure::Failure;
use crate::fields::{Fields, url};
use crate::html::{Cell, Document, Shown, ago, cli, document, fitting, job_link, key_cell, quoted, state};
use crate::page::{LOOK_UP, Page};

/// The most keys on a page.
const ROWS: u32 = 50;

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let client = page.client();
    let (prefix, kind, queue) = (fields.get("prefix"), fields.get("kind"), fields.get("queue"));
    let now = page.now().await?;
    let mut claims = client.claims().limit(ROWS + 1).timeout(LOOK_UP);
    if let Some(prefix) = prefix {
        claims = claims.prefix(prefix);
    }
    if let Some(kind) = kind {
        claims = claims.kind(kind);
    }
    if let Some(queue) = queue {
        claims = claims.queue(queue);
    }
    if let Some(after) = fields.get("after") {
        claims = claims.after(after);
    }
    let mut keys = claims.await?;
    let has_more = keys.len() > ROWS as usize;
    keys.truncate(ROWS as usize);
    let pairs: Vec<_> = [("prefix", prefix), ("kind", kind), ("queue", queue)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let rows = fitting(&keys, keys.len(), |key| {
        html! {
            tr {
                td.clip.l1 { (key_cell(&page, &key.claim.unique_key)) }
                td.nowrap { (job_link(&page, key.claim.holder)) }
                td.nowrap.r1 { (state(key.claim.holder_state)) }
                td.clip.l2 { (Cell(&key.kind)) }
                td.clip { (Cell(&key.queue)) }
                td.clip title=(key.claim.frees()) { (key.claim.frees()) }
                td.num.r2 { (ago(key.created_at, now)) }
            }
        }
    });
    let last = rows.shown.checked_sub(1).filter(|_| has_more || rows.shown < rows.of);
    let next = last.map(|last| {
        let mut pairs = pairs.clone();
        pairs.push(("after", &keys[last].claim.unique_key));
        url("/keys", &pairs)
    });
    let conditions = pairs.iter().map(|(name, value)| format!(" --{name} {}", quoted(value)));
    let body = html! {
        form.row.search method="get" action=(page.link("/keys")) role="search" {
            input.mono name="prefix" value=[prefix] placeholder="key begins with" aria-label="Key begins with" size="30";
            input name="kind" value=[kind] placeholder="kind" aria-label="Kind" size="16";
            input name="queue" value=[queue] placeholder="queue" aria-label="Queue" size="12";
            button { "Search" }
        }
        @if keys.is_empty() {
            div.panel.empty {
                @if pairs.is_empty() {
                    p { "No key is claimed now. A job claims its key while its state is one of its unique states." }
                    p { a href=(page.link("/explain")) { "Explain" } " shows what a policy would do." }
                } @else { p { "No claimed key meets these conditions. " a href=(page.link("/keys")) { "All keys" } } }
            }
        } @else {
            div.scroll {
                table.lines {
                    thead { tr { th { "Key" } th { "Holder" } th { "State" } th { "Kind" } th { "Queue" } th { "Free" } th.num { "Held" } } }
                    tbody { (rows.html) }
                }
            }
            (rows.note())
            p.row.pages { @if let Some(next) = next { a.button rel="next" href=(page.link(&next)) { "Next page" } } }
        }
        (cli(&format!("uniqueue unique holders{}", conditions.collect::<String>())))
    };
    Ok(document(&page, Document { title: "Keys", is_live: false, actions: html! {}, body }))
}
