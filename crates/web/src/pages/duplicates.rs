//! Suppressed duplicates of audited kinds.

use uniqueue_admin::AuditedKind;

use crate::pages::prelude::*;

/// The most keys on the page.
const ROWS: u32 = 100;

pub(crate) async fn list(page: Page, fields: Fields) -> Result<Shown, Failure> {
    let now = page.now().await?;
    let kinds = page.admin().audited_kinds().timeout(LOOK_UP).await?;
    let counters = page.admin().suppressed_duplicates().limit(ROWS).timeout(LOOK_UP);
    let mut counters = counters.given(fields.get("kind"), |counters, kind| counters.kind(kind)).await?;
    counters.sort_by_key(|counter| std::cmp::Reverse(counter.suppressed));
    let rows = fitting(&counters, counters.len(), |one| {
        html! { tr {
            td.clip.l1 { (key_cell(&page, &one.unique_key)) }
            td.clip.l2 { (Cell(&one.kind)) }
            td.num.r1 data-is="suppressed" { b { (grouped(one.suppressed)) } }
            td.num { (ago(one.first_at, now)) }
            td.num.r2 { (ago(one.last_at, now)) }
            td.nowrap { (job_link(&page, one.last_holder)) }
        } }
    });
    let body = html! {
        @if kinds.is_empty() {
            p.panel.empty { "No kind is audited, so duplicates are not counted. A duplicate of an audited kind costs one more row." }
        } @else { (audited(&page, &kinds, now)) }
        @if page.may(Right::Audit) {
            form.row method="post" action=(page.link("/duplicates/audit")) {
                input name="kind" placeholder="kind" aria-label="Kind" required;
                (submit("verb", "start", "Count its duplicates", ""))
            }
        }
        @if !counters.is_empty() {
            section {
                h2.above { "Keys" }
                (rows.table(html! { th { "Key" } th { "Kind" } th.num { "Suppressed" } th.num { "First" } th.num { "Last" } th { "Last holder" } }))
                (rows.note())
                p.note { "The " (ROWS) " keys whose last duplicate came last, those with the most duplicates first." }
            }
        }
        (cli(&fields.get("kind").map_or("uniqueue unique audit".to_owned(), |kind| format!("uniqueue unique audit {}", argument(kind)))))
    };
    Ok(document(&page, Document { title: "Duplicates", is_live: false, actions: html! {}, body }))
}

fn audited(page: &Page, kinds: &[AuditedKind], now: OffsetDateTime) -> Markup {
    let rows = fitting(kinds, ROWS as usize, |one| {
        html! { tr {
            th.l1 scope="row" { a href=(page.link(&crate::fields::url("/duplicates", &[("kind", one.kind.as_str())]))) { (Cell(&one.kind)) } }
            td.l2 {
                @if one.is_audited { "since " (ago(one.since, now)) } @else { "stopped" }
                @if one.tally_is_full { " " span.badge.warning { "the buffer is full" } }
            }
            td.num.r1 data-is="suppressed" { b { (grouped(one.suppressed)) } }
            td.num { (per_hour(one, now)) }
            td.num.r2 { @if let Some(at) = one.last_at { (ago(at, now)) } }
            td.own-line {
                @if page.may(Right::Audit) && one.is_audited {
                    form.row method="post" action=(page.link("/duplicates/audit")) {
                        input type="hidden" name="kind" value=(one.kind);
                        (submit("verb", "stop", "Stop", ""))
                    }
                }
            }
        } }
    });
    html! {
        (rows.table(html! { th { "Kind" } th { "Counted" } th.num { "Suppressed" } th.num { "Rate" } th.num { "Last" } th { span.sr { "Change" } } }))
        (rows.note())
    }
}

/// Suppressed duplicates an hour, since counting started.
fn per_hour(kind: &AuditedKind, now: OffsetDateTime) -> String {
    let hours = (kind.stopped_at.unwrap_or(now) - kind.since).as_seconds_f64() / 3_600.0;
    format!("{}/h", rate(kind.suppressed as f64 / hours.max(1.0 / 60.0)))
}

/// Starts or stops the audit of a kind.
pub(crate) async fn audit(page: Page, body: String) -> Result<Response, Failure> {
    let fields = Fields::read(&body);
    let kind = fields.need("kind")?;
    let change = match fields.need("verb")? {
        "start" => page.admin().audit_duplicates(kind, None),
        "stop" => page.admin().stop_audit(kind, None),
        other => return Err(Failure::Bad(format!("there is no such change: {other:?}"))),
    };
    by!(page, change).await?;
    page.log("audit_duplicates", kind);
    Ok(page.go_to("/duplicates"))
}
