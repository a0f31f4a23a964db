//! Claimed keys, by prefix.

use uniqueue_admin::KeyHolder;

use crate::pages::prelude::*;

/// The most keys on a page.
const ROWS: u32 = 50;

/// The conditions of the list.
const CONDITIONS: [&str; 3] = ["prefix", "kind", "queue"];

async fn claimed(page: Arc<Page>, fields: Arc<Fields>) -> Result<(OffsetDateTime, Vec<KeyHolder>), Failure> {
    let is_after = page.is_after(fields.get("place"));
    let claims = (page.admin().claims().limit(ROWS + 1).timeout(LOOK_UP))
        .given(fields.get("prefix"), |claims, prefix| claims.prefix(prefix))
        .given(fields.get("kind"), |claims, kind| claims.kind(kind))
        .given(fields.get("queue"), |claims, queue| claims.queue(queue))
        .given(fields.get("after"), |claims, key| if is_after { claims.from(key) } else { claims.after(key) });
    Ok((page.now().await?, claims.await?))
}

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let (page, fields) = (Arc::new(page), Arc::new(fields));
    let asked = page.ask(|page| claimed(page, Arc::clone(&fields))).await?;
    let mut keys = asked.rows(|(now, keys)| (*now, keys));
    keys.sort_by_key(|(page, _, key)| (key.claim.unique_key.as_str(), page.place()));
    let rows = fitting(&keys, ROWS as usize, |(page, now, key)| {
        html! {
            tr {
                (place_cell(page))
                td.clip.l1 { (key_cell(page, &key.claim.unique_key)) }
                td.nowrap { (job_link(page, key.claim.holder)) }
                td.nowrap.r1 { (state(key.claim.holder_state)) }
                td.clip.l2 { (Cell(&key.kind)) }
                td.clip { (Cell(&key.queue)) }
                td.wrap { (free_when(key)) }
                td.num.r2 { (ago(key.created_at, *now)) }
            }
        }
    });
    let pairs: Vec<_> = CONDITIONS.iter().filter_map(|name| Some((*name, fields.get(name)?))).collect();
    let next = rows.last(&keys).map(|(page, _, last)| {
        let after = [("after", Some(last.claim.unique_key.as_str())), ("place", page.place())];
        url_given("/keys", &[&CONDITIONS.map(|name| (name, fields.get(name))), &after[..]].concat())
    });
    let conditions = pairs.iter().map(|(name, value)| format!(" --{name} {}", quoted(value)));
    let body = html! {
        form.row.search method="get" action=(page.link("/keys")) role="search" {
            input.mono name="prefix" value=[fields.get("prefix")] placeholder="key begins with" aria-label="Key begins with" size="30";
            input name="kind" value=[fields.get("kind")] placeholder="kind" aria-label="Kind" size="16";
            input name="queue" value=[fields.get("queue")] placeholder="queue" aria-label="Queue" size="12";
            button { "Search" }
        }
        (asked.silent())
        @if keys.is_empty() {
            div.panel.empty {
                @if pairs.is_empty() {
                    p { "No key is claimed now. A job claims its key while its state is one of its unique states." }
                    p { a href=(page.link("/explain")) { "Explain" } " shows what a policy would do." }
                } @else { p { "No claimed key meets these conditions. " a href=(page.link("/keys")) { "All keys" } } }
            }
        } @else {
            (rows.table(html! { (place_head(&page)) th { "Key" } th { "Holder" } th { "State" } th { "Kind" } th { "Queue" } th { "Free when" } th.num { "Held" } }))
            (pages(&page, None, next.as_deref()))
        }
        (cli(&format!("uniqueue unique holders{}", conditions.collect::<String>())))
    };
    Ok(document(&page, Document { title: "Keys", is_live: false, actions: html! {}, body }))
}

/// The events that free a key, below the head "Free when".
fn free_when(key: &KeyHolder) -> String {
    let frees = key.claim.frees();
    frees.strip_prefix("when it is ").or(frees.strip_prefix("when ")).unwrap_or(&frees).to_owned()
}
