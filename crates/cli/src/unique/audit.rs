//! `uniqueue unique audit`.

use uniqueue_admin::{AuditedKind, SuppressedDuplicate};

use crate::prelude::*;

/// Count the suppressed duplicates of a kind, and list the counts.
///
/// A duplicate normally writes nothing. If its kind is audited, it is counted by its key. Without --start and --stop the
/// command lists the kinds, and the keys with the latest duplicates.
///
/// Examples:
///   uniqueue unique audit email.send --start --keep 30d
///   uniqueue unique audit
///   uniqueue unique audit email.send --limit 100 --json
///   uniqueue unique audit email.send --stop
///
/// Exit codes:
///   1    nothing can be counted now: the buffer is full, because no runner empties it
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct AuditArguments {
    /// Only this kind
    kind: Option<String>,

    /// Count the kind's duplicates from now on
    #[arg(long, requires = "kind", conflicts_with = "stop")]
    pub(super) start: bool,

    /// Stop counting; the counts stay until their retention ends
    #[arg(long, requires = "kind")]
    pub(super) stop: bool,

    /// How long the counter of a key is kept after its last duplicate [default: unchanged, at first 7d]
    #[arg(long, value_name = "DURATION", requires = "start")]
    keep: Option<DurationArgument>,

    /// The largest number of keys
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u32,
}

/// The counted duplicates.
#[derive(Debug, Serialize)]
struct Audit {
    kinds: Vec<AuditedKind>,
    /// The keys with the latest duplicates.
    keys: Vec<SuppressedDuplicate>,
}

pub(super) async fn audit(client: Client, form: Form, arguments: AuditArguments) -> Result<Answer, Failure> {
    let AuditArguments { kind, start, stop, keep, limit } = arguments;
    let admin = Admin::new(&client);
    if let Some(kind) = kind.as_ref().filter(|_| start || stop) {
        let keep = keep.map(|keep| keep.0);
        if stop { admin.stop_audit(kind, keep).await? } else { admin.audit_duplicates(kind, keep).await? }
    }
    let mut kinds = admin.audited_kinds().await?;
    kinds.retain(|audited| kind.as_ref().is_none_or(|kind| audited.kind.as_str() == kind));
    let keys = admin.suppressed_duplicates().limit(limit).given(kind.as_ref(), |keys, kind| keys.kind(kind));
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
    let kinds = List::of(&audit.kinds)
        .column(Column::text("kind"), |of| &of.kind)
        .column(Column::text("counted"), |of| match (of.is_audited, of.tally_is_full) {
            (false, _) => Cell::new("stopped").style(Style::Faint),
            (true, false) => Cell::new("yes").style(Style::Good),
            (true, true) => Cell::new("no: buffer full").style(Style::Bad),
        })
        .column(Column::number("duplicates"), |of| output::count(of.suppressed))
        .column(Column::number("since"), |of| output::format_relative(of.since, now))
        .column(Column::number("last"), |of| of.last_at.map_or_else(String::new, |at| output::format_relative(at, now)))
        .column(Column::number("keys kept for"), |of| output::format_duration(of.keep))
        .table();
    Body::Tables(vec![kinds, counters(&audit.keys, now)])
}

/// Lays out the counts by key.
pub(super) fn counters(keys: &[SuppressedDuplicate], now: time::OffsetDateTime) -> Table {
    List::of(keys)
        .column(Column::text("kind"), |of| &of.kind)
        .column(Column::text("unique key"), |of| &of.unique_key)
        .column(Column::number("duplicates"), |of| output::count(of.suppressed))
        .column(Column::number("first"), |of| output::format_relative(of.first_at, now))
        .column(Column::number("last"), |of| output::format_relative(of.last_at, now))
        .column(Column::text("last holder"), |of| of.last_holder.to_string())
        .table()
}
