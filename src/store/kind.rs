//! Registered kinds.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use super::row::Stored;
use super::{Statements, query};
use crate::error::Result;
use crate::words::ident::{Kind, QueueName};
use crate::words::kind::{KindDefinition, KindRow};
use crate::words::place_by::PlaceBy;

/// Registers kinds. Answers with the row of each that is registered, and with the digest of what was declared of it. `by`: the
/// process that registers them. `None`: what its connection says. The file of the process is the program that owns it.
pub(crate) async fn register_kinds(
    connection: &mut PgConnection,
    statements: &Statements,
    definitions: &[KindDefinition],
    by: Option<&str>,
) -> Result<Vec<(KindRow, String)>> {
    let program = std::env::current_exe().ok().map(|file| file.to_string_lossy().into_owned());
    let register = query(&statements.register_kinds).bind(Json(definitions)).bind(by).bind(program);
    let rows = register.fetch_all(connection).await?;
    rows.iter().map(|row| Ok((kind_row(row)?, row.try_get("digest")?))).collect()
}

/// The registered kinds by name, or those of these names.
pub(crate) async fn list_kinds(
    connection: &mut PgConnection,
    statements: &Statements,
    names: Option<&[String]>,
) -> Result<Vec<KindRow>> {
    let rows = query(&statements.list_kinds).bind(names).fetch_all(connection).await?;
    rows.iter().map(kind_row).collect()
}

fn kind_row(row: &PgRow) -> Result<KindRow> {
    let length = |column| {
        let seconds = row.try_get::<Option<f64>, _>(column)?;
        Ok::<_, sqlx::Error>(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
    };
    let count =
        |column| Ok::<_, sqlx::Error>(row.try_get::<Option<i16>, _>(column)?.map(|count| count.max(0).unsigned_abs()));
    Ok(KindRow {
        name: Kind::from_stored(row.try_get("name")?),
        queue: row.try_get::<Option<&str>, _>("queue")?.map(QueueName::from_stored),
        priority: row.try_get("priority")?,
        max_attempts: count("max_attempts")?,
        delay: length("delay")?,
        timeout: length("timeout")?,
        backoff: row.try_get("backoff")?,
        unique_policy: row.try_get("unique_policy")?,
        group_policy: row.try_get("group_policy")?,
        group_limit: count("group_limit")?,
        in_order: row.try_get("in_order")?,
        expires_in: length("expires_in")?,
        place: row.try_get::<Option<&str>, _>("place")?.map(PlaceBy::from_stored),
        registered_at: row.try_get::<Stored, _>("registered_at")?.0,
        registered_by: row.try_get("registered_by")?,
        changed_at: row.try_get::<Stored, _>("changed_at")?.0,
    })
}

/// Forgets what was registered of a kind. Returns whether there was anything.
pub(crate) async fn remove_kind(connection: &mut PgConnection, statements: &Statements, name: &str) -> Result<bool> {
    Ok(query(&statements.remove_kind).bind(name).fetch_one(connection).await?.try_get(0)?)
}
