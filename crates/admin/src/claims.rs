//! Claimed keys, their holders, the jobs that had a key before, and the inserts that wait for other transactions.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use uniqueue::{Call, Duplicate, JobFilter, JobId, JobRow, Kind, QueueName, stored_time};

use crate::statement::{OfId, arguments, rows};
use crate::{Admin, List};

/// The most jobs in the history of a key.
const HISTORY: u32 = 50;

/// A key that is claimed, and the job that claims it, as [`Admin::claims`] lists it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeyHolder {
    /// The key, the job, its state and age, and the event that ends its claim.
    #[serde(flatten)]
    pub claim: Duplicate,
    /// The job's kind.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// When it was inserted.
    #[serde(with = "stored_time")]
    pub created_at: OffsetDateTime,
}

/// The id of a job.
/// The jobs that have a key: the one that claims it, and those among the last jobs of all. A key that is not claimed is in no index.
const KEY_HISTORY: &str = "/* planned anew */
SELECT h.id FROM /* schema */job AS h WHERE h.unique_key = $1::jsonb ->> 'key' AND h.claims
UNION
(
    SELECT r.id
    FROM (
        SELECT j.id, j.unique_key FROM /* schema */job AS j ORDER BY j.id DESC LIMIT ($1::jsonb ->> 'among')::bigint
    ) AS r
    WHERE r.unique_key = $1::jsonb ->> 'key'
    ORDER BY r.id DESC
    LIMIT ($1::jsonb ->> 'limit')::bigint
)";

impl<'a> Admin<'a> {
    /// Lists the keys that are claimed now, in the order of their bytes, with the jobs that claim them.
    ///
    /// A page is read from the index of keys, and takes equally long on a table of any size. With a kind or a queue,
    /// claims are read until the page is full.
    pub fn claims(self) -> List<'a, KeyHolder> {
        List::new(self.client, include_str!("sql/claims.sql"))
    }

    /// Lists the jobs that have a unique key, the youngest first: the one that claims it, and up to fifty among the
    /// `among` last jobs of all kinds. Only claimed keys are in an index. Reading 100,000 jobs takes some tenths of a
    /// second.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database).
    pub fn key_history(self, unique_key: &str, among: u32) -> Call<'a, Vec<JobRow>> {
        let asked = arguments(json!({ "key": unique_key, "among": among, "limit": HISTORY }));
        let asking = Call::new(self.client, move |client, connection| {
            Box::pin(async move {
                let found: Vec<OfId> = rows(client, connection, KEY_HISTORY, &asked).await?;
                let ids = found.into_iter().map(|row| row.id);
                client.jobs(JobFilter::new().ids(ids).limit(HISTORY + 1)).tx(connection).await
            })
        });
        asking.of_statements(2)
    }

    /// Lists the inserts that wait for other transactions, with these transactions: the longest wait first, a thousand by
    /// default. As the view `waiting_insert`.
    pub fn waiting_inserts(self) -> List<'a, WaitingInsert> {
        List::new(self.client, include_str!("sql/waiting_inserts.sql")).limit(1_000)
    }
}

impl List<'_, KeyHolder> {
    /// Only holders of this kind.
    pub fn kind(self, kind: impl Into<String>) -> Self {
        self.with("kind", kind.into())
    }

    /// Only holders in this queue.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.with("queue", queue.into())
    }

    /// Only keys that begin with this text.
    pub fn prefix(self, prefix: &str) -> Self {
        self.with("prefix", prefix).with("beyond", beyond(prefix))
    }

    /// Only this key and later ones.
    pub fn from(self, unique_key: impl Into<String>) -> Self {
        self.with("from", unique_key.into())
    }

    /// Only keys after this one: for the next page, the last key of the page before.
    pub fn after(self, unique_key: impl Into<String>) -> Self {
        self.with("after", unique_key.into())
    }
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

/// An insert that waits for another transaction, as
/// [`Admin::waiting_inserts`] lists it. Fields about sessions of other
/// roles are only visible with `pg_read_all_stats`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WaitingInsert {
    /// The process id of the waiting session.
    pub pid: i32,
    /// The `application_name` of the waiting session.
    pub application: Option<String>,
    /// How long it has waited.
    #[serde(with = "uniqueue::period::seconds::option")]
    pub waiting_for: Option<Duration>,
    /// `a key`, which another transaction has inserted but not committed, or `a job`, the holder, which
    /// another transaction changes.
    pub waits_for: String,
    /// The key of the holder. `None` if it waits for a key, which other sessions cannot see.
    pub unique_key: Option<String>,
    /// The holder, if it waits for a job.
    pub holder: Option<JobId>,
    /// The process id of the blocking session. `None` if a prepared transaction blocks.
    pub blocker_pid: Option<i32>,
    /// The `application_name` of the blocking session.
    pub blocker_application: Option<String>,
    /// The state of the blocking session, such as `idle in transaction`.
    pub blocker_state: Option<String>,
    /// The current or last statement of the blocking session.
    pub blocker_query: Option<String>,
    /// How long the blocking transaction has been open.
    #[serde(with = "uniqueue::period::seconds::option")]
    pub blocker_open_for: Option<Duration>,
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
