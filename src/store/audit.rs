//! The audit of suppressed duplicates: its switch, the folding of notes into counters, and the counters.

use std::time::Duration;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::row::Stored;
use super::{Statements, interval, milliseconds, query};
use crate::audit::{AuditedKind, SuppressedDuplicate};
use crate::error::Result;
use crate::ident::{JobId, Kind};

/// Starts or stops counting the suppressed duplicates of a kind. `keep`: `None` leaves it as it is.
pub(crate) async fn audit_duplicates(
    connection: &mut PgConnection,
    statements: &Statements,
    kind: &Kind,
    audit: bool,
    keep: Option<Duration>,
) -> Result<()> {
    let query = query(&statements.audit_duplicates).bind(kind.as_str()).bind(audit).bind(keep.map(interval));
    query.execute(connection).await?;
    Ok(())
}

/// Folds up to `limit` notes into the counters, and deletes up to as many old counters. Returns the number of notes
/// folded.
pub(crate) async fn fold_duplicates(connection: &mut PgConnection, statements: &Statements, limit: i32) -> Result<i32> {
    let row = query(&statements.fold_duplicates).persistent(false).bind(limit).fetch_one(connection).await?;
    Ok(row.try_get("folded")?)
}

/// The kinds that are or were audited, by name.
pub(crate) async fn audited_kinds(connection: &mut PgConnection, statements: &Statements) -> Result<Vec<AuditedKind>> {
    let rows = query(&statements.audited_kinds).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            Ok(AuditedKind {
                kind: Kind::from_stored(row.try_get("kind")?),
                is_audited: row.try_get("is_audited")?,
                since: row.try_get::<Stored, _>("since")?.0,
                stopped_at: row.try_get::<Option<Stored>, _>("stopped_at")?.map(|at| at.0),
                suppressed: row.try_get::<i64, _>("suppressed")?.unsigned_abs(),
                last_at: row.try_get::<Option<Stored>, _>("last_at")?.map(|at| at.0),
                keep: milliseconds(row.try_get("keep")?),
                tally_is_full: row.try_get("tally_is_full")?,
            })
        })
        .collect()
}

/// The counters of a kind, of a key, or all, the latest first.
pub(crate) async fn suppressed_duplicates(
    connection: &mut PgConnection,
    statements: &Statements,
    kind: Option<&str>,
    unique_key: Option<&str>,
    limit: u32,
) -> Result<Vec<SuppressedDuplicate>> {
    // Not prepared, so that the plan knows the arguments.
    let query = query(&statements.suppressed_duplicates).persistent(false);
    let rows = query.bind(kind).bind(unique_key).bind(i64::from(limit)).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            Ok(SuppressedDuplicate {
                kind: Kind::from_stored(row.try_get("kind")?),
                unique_key: row.try_get("unique_key")?,
                suppressed: row.try_get::<i64, _>("suppressed")?.unsigned_abs(),
                first_at: row.try_get::<Stored, _>("first_at")?.0,
                last_at: row.try_get::<Stored, _>("last_at")?.0,
                last_holder: JobId::from(row.try_get::<Uuid, _>("last_holder")?),
            })
        })
        .collect()
}
