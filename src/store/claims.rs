//! Keys, their holders, and the jobs that held them before.

use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::{Stored, job_row};
use super::{Statements, query};
use crate::error::Result;
use crate::unique::{Duplicate, KeyHolder, StateSet};
use crate::words::ident::{JobId, Kind, QueueName};
use crate::words::job::JobRow;

/// Which claims.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimFilter {
    pub(crate) kind: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) prefix: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) limit: u32,
}

/// Claimed keys, in their order.
pub(crate) async fn list_claims(
    connection: &mut PgConnection,
    statements: &Statements,
    filter: &ClaimFilter,
) -> Result<Vec<KeyHolder>> {
    let ClaimFilter { kind, queue, after, prefix, from, limit } = filter;
    // Not prepared, so that the plan knows which conditions are set.
    let query = query(&statements.list_claims).persistent(false);
    let rows = query
        .bind(kind)
        .bind(queue)
        .bind(after)
        .bind(prefix.as_ref().max(from.as_ref()))
        .bind(prefix.as_deref().and_then(beyond))
        .bind(i64::from(*limit))
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let created_at = row.try_get::<Stored, _>("created_at")?.0;
            let age = row.try_get::<OffsetDateTime, _>("answered_at")? - created_at;
            Ok(KeyHolder {
                claim: Duplicate {
                    unique_key: row.try_get("unique_key")?,
                    holder: JobId::from(row.try_get::<Uuid, _>("id")?),
                    holder_state: row.try_get::<&str, _>("state")?.parse()?,
                    holder_age: age.try_into().unwrap_or_default(),
                    claims_in: StateSet::from_bits(row.try_get("unique_states")?).unwrap_or_default(),
                    until_start: row.try_get("until_start")?,
                    unique_until: row.try_get::<Option<Stored>, _>("unique_until")?.map(|at| at.0),
                },
                kind: Kind::from_stored(row.try_get("kind")?),
                queue: QueueName::from_stored(row.try_get("queue")?),
                created_at,
            })
        })
        .collect()
}

/// The jobs that have a key: its holder, and up to `limit` of the `look_at` last jobs.
pub(crate) async fn key_history(
    connection: &mut PgConnection,
    statements: &Statements,
    key: &str,
    look_at: u32,
    limit: u32,
) -> Result<Vec<JobRow>> {
    let query = query(&statements.key_history).persistent(false);
    let rows = query.bind(key).bind(i64::from(look_at)).bind(i64::from(limit)).fetch_all(connection).await?;
    rows.iter().map(job_row).collect()
}

/// The first text, byte by byte, that is beyond all that begin with the prefix. `None`: there is none.
fn beyond(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = match last {
            // Surrogates are not characters.
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::beyond;

    #[test]
    fn what_is_beyond_a_prefix_is_beyond_all_that_begin_with_it() {
        assert_eq!(beyond("ab").as_deref(), Some("ac"));
        assert_eq!(beyond("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(beyond("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(beyond("\u{10ffff}"), None);
        assert_eq!(beyond(""), None);
    }
}
