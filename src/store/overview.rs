//! Lists of groups.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::row::Stored;
use super::why::obstacle;
use super::{Statements, query};
use crate::error::Result;
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::overview::{GroupInfo, HeldGroup};

/// The order of a list of groups.
#[derive(Clone, Debug)]
pub(crate) enum GroupOrder {
    /// Groups that are held up first.
    HeldUp,
    /// By the names of their queues and by their keys, after this queue and key.
    Name { after: (String, String) },
}

/// The groups that have available or running jobs.
pub(crate) async fn list_groups(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: Option<&QueueName>,
    order: &GroupOrder,
    limit: u32,
) -> Result<Vec<GroupInfo>> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let statement = match order {
        GroupOrder::HeldUp => &statements.list_groups,
        GroupOrder::Name { .. } => &statements.page_groups,
    };
    let mut query = query(statement).bind(queue.map(QueueName::as_str)).bind(limit);
    if let GroupOrder::Name { after: (queue, group) } = order {
        query = query.bind(queue).bind(group);
    }
    let rows = query.fetch_all(connection).await?;
    let group = |row: &PgRow| {
        Ok(GroupInfo {
            queue: QueueName::from_stored(row.try_get("queue")?),
            group: row.try_get("group_key")?,
            running: row.try_get::<i64, _>("running")?.unsigned_abs(),
            limit: row.try_get::<Option<i32>, _>("group_limit")?.map(i32::unsigned_abs),
            waiting: row.try_get::<i64, _>("waiting")?.unsigned_abs(),
            head: row.try_get::<Option<Uuid>, _>("head")?.map(JobId::from),
            head_kind: row.try_get::<Option<&str>, _>("head_kind")?.map(Kind::from_stored),
            head_since: row.try_get::<Option<Stored>, _>("head_since")?.map(|at| at.0),
            held_by: row.try_get::<Option<&str>, _>("code")?.map(|_| obstacle(row)).transpose()?,
            held_until: row.try_get::<Option<Stored>, _>("held_until")?.map(|at| at.0),
        })
    };
    rows.iter().map(group).collect()
}

/// The groups that are held, of one queue or of all.
pub(crate) async fn held_groups_list(
    connection: &mut PgConnection,
    statements: &Statements,
    queue: Option<&QueueName>,
    group: Option<&str>,
    limit: u32,
) -> Result<Vec<HeldGroup>> {
    let limit = i64::from(limit);
    let query = query(&statements.list_held_groups).bind(queue.map(QueueName::as_str)).bind(group).bind(limit);
    let rows = query.fetch_all(connection).await?;
    let group = |row: &PgRow| {
        Ok(HeldGroup {
            queue: QueueName::from_stored(row.try_get("queue")?),
            group: row.try_get("group_key")?,
            held_until: row.try_get::<Stored, _>("held_until")?.0,
        })
    };
    rows.iter().map(group).collect()
}
