//! Releasing jobs that run after others. The statements are planned in their functions, by index.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Statements, query};
use crate::error::Result;

/// Where a step goes on. The default: at the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct EdgePlace {
    link: Option<Uuid>,
    parent: Option<Uuid>,
    child: Option<Uuid>,
}

/// What a step found.
#[derive(Debug)]
pub(crate) struct ReleaseStep {
    pub(crate) next: EdgePlace,
    /// How many edges it looked at.
    pub(crate) seen: i64,
    /// Whether it told the database that the releaser sleeps, or does not.
    pub(crate) has_told: bool,
    /// Whether a job still waits for another.
    pub(crate) is_awaited: bool,
}

/// Releases and cancels jobs that run after others which have ended: at most `limit` edges. `sleeps`: whether the
/// releaser waits for a notification afterwards.
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
    Ok(ReleaseStep { next, seen: row.try_get("seen")?, has_told, is_awaited })
}

/// Puts right what changes by hand left behind, at the edges of up to `limit` children after one. Returns the last of
/// them, or `None` where none comes after them, and how many edges were put right.
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
