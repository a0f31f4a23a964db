//! `uniqueue unique audit`.

use serde::Serialize;
use uniqueue::Client;
use uniqueue_admin::{Admin, AuditedKind, SuppressedDuplicate};

use super::args::AuditArguments;
use crate::database::ask_each;
use crate::exit::{Failure, Verdict};
use crate::output::{self, Answer, Body, Cell, Column, Form, Style, Table};

/// The counted duplicates.
#[derive(Debug, Serialize)]
struct Audit {
    kinds: Vec<AuditedKind>,
    /// The keys with the latest duplicates.
    keys: Vec<SuppressedDuplicate>,
}

pub(super) async fn run(arguments: AuditArguments) -> Result<Verdict, Failure> {
    ask_each(&arguments.database, |client, form| audit(client, form, arguments.clone())).await
}

async fn audit(client: Client, form: Form, arguments: AuditArguments) -> Result<Answer, Failure> {
    let AuditArguments { kind, start, stop, keep, limit, database: _ } = arguments;
    let admin = Admin::new(&client);
    if let Some(kind) = kind.as_ref().filter(|_| start || stop) {
        let keep = keep.map(|keep| keep.0);
        if stop { admin.stop_audit(kind, keep).await? } else { admin.audit_duplicates(kind, keep).await? }
    }
    let mut kinds = admin.audited_kinds().await?;
    let mut keys = admin.suppressed_duplicates().limit(limit);
    if let Some(kind) = &kind {
        kinds.retain(|audited| audited.kind.as_str() == kind);
        keys = keys.kind(kind);
    }
    let audit = Audit { kinds, keys: keys.await? };
    let now = client.database_time().await?;
    let is_full = audit.kinds.iter().any(|kind| kind.is_audited && kind.tally_is_full);
    let verdict = if is_full { Verdict::NotFine } else { Verdict::Fine };
    Ok(form.object(&audit, |audit| text(audit, now))?.verdict(verdict))
}

fn text(audit: &Audit, now: time::OffsetDateTime) -> Body {
    if audit.kinds.is_empty() {
        return Body::Text("no duplicates are counted: see `uniqueue unique audit --help`\n".to_owned());
    }
    let mut kinds = Table::new([
        Column::text("kind"),
        Column::text("counted"),
        Column::number("duplicates"),
        Column::number("since"),
        Column::number("last"),
        Column::number("keys kept for"),
    ]);
    for kind in &audit.kinds {
        let counted = match (kind.is_audited, kind.tally_is_full) {
            (false, _) => Cell::new("stopped").style(Style::Faint),
            (true, false) => Cell::new("yes").style(Style::Good),
            (true, true) => Cell::new("no: buffer full").style(Style::Bad),
        };
        kinds.row([
            Cell::new(kind.kind.as_str()),
            counted,
            Cell::new(output::count(kind.suppressed)),
            Cell::new(output::format_relative(kind.since, now)),
            Cell::new(kind.last_at.map(|at| output::format_relative(at, now)).unwrap_or_default()),
            Cell::new(output::format_duration(kind.keep)),
        ]);
    }
    Body::Tables(vec![kinds, counters(&audit.keys, now)])
}

/// Lays out the counts by key.
pub(super) fn counters(keys: &[SuppressedDuplicate], now: time::OffsetDateTime) -> Table {
    let mut table = Table::new([
        Column::text("kind"),
        Column::text("unique key"),
        Column::number("duplicates"),
        Column::number("first"),
        Column::number("last"),
        Column::text("last holder"),
    ]);
    for key in keys {
        table.row([
            key.kind.to_string(),
            key.unique_key.clone(),
            output::count(key.suppressed),
            output::format_relative(key.first_at, now),
            output::format_relative(key.last_at, now),
            key.last_holder.to_string(),
        ]);
    }
    table
}
