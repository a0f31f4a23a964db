//! Releasing jobs that run after others. The statements are planned in their functions, by index.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Statements, query};
use crate::error::Result;

/// The position at which a step begins. Default: the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct EdgePlace {
    link: Option<Uuid>,
    parent: Option<Uuid>,
    child: Option<Uuid>,
}

/// The result of a step.
#[derive(Debug)]
pub(crate) struct ReleaseStep {
    pub(crate) next: EdgePlace,
    /// How many edges it looked at.
    pub(crate) seen: i64,
    /// How many edges it linked, and how many children it released or cancelled.
    pub(crate) changed: i32,
    /// Whether it told the database that the releaser sleeps, or does not.
    pub(crate) has_told: bool,
    /// Whether a job still waits for another.
    pub(crate) is_awaited: bool,
}

/// Releases and cancels children whose parents have ended. Looks at up to `limit` edges. `sleeps`: whether the releaser
/// waits for a notification afterwards.
pub(crate) async fn release_children(
    connection: &mut PgConnection,
    statements: &Statements,
    holder: Uuid,
    from: EdgePlace,
    limit: i64,
    sleeps: bool,
) -> Result<ReleaseStep> {
    let EdgePlace { link, parent, child } = from;
    let query = query(&statements.release_children).persistent(false).bind(holder).bind(link).bind(parent).bind(child);
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let row = query.bind(limit).bind(sleeps).fetch_one(connection).await?;
    let next = EdgePlace {
        link: row.try_get("link_from")?,
        parent: row.try_get("parent_from")?,
        child: row.try_get("child_from")?,
    };
    let (has_told, is_awaited) = (row.try_get("has_told")?, row.try_get("is_awaited")?);
    let (seen, changed) = (row.try_get("seen")?, row.try_get("changed")?);
    Ok(ReleaseStep { next, seen, changed, has_told, is_awaited })
}

/// Releases and cancels the children of all parents that have ended. Returns whether there were any.
#[cfg(feature = "testing")]
pub(crate) async fn release_all(connection: &mut PgConnection, statements: &Statements) -> Result<bool> {
    const MOST: i64 = 1_000;
    let (mut from, mut has_changed, mut idle_steps) = (EdgePlace::default(), false, 0);
    // A step that changes no child may have moved edges of a replaced job, which the next step links.
    while idle_steps < 2 {
        let step = release_children(&mut *connection, statements, Uuid::nil(), from, MOST, false).await?;
        has_changed |= step.changed > 0;
        from = step.next;
        idle_steps = if step.changed == 0 && from == EdgePlace::default() { idle_steps + 1 } else { 0 };
    }
    Ok(has_changed)
}

/// Repairs the edges of up to `limit` children after the child `after`. Returns the last of these children and the number of
/// repaired edges. The last child is `None` at the end of the table.
pub(crate) async fn check_edges(
    connection: &mut PgConnection,
    statements: &Statements,
    after: Option<Uuid>,
    limit: i64,
) -> Result<(Option<Uuid>, i64)> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let row = query(&statements.check_edges).persistent(false).bind(after).bind(limit).fetch_one(connection).await?;
    Ok((row.try_get("last_child")?, row.try_get("mended")?))
}
