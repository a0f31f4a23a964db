//! What a backfill reads and writes: pages of jobs, and batches of keys or groups, each in a transaction of its own.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use time::OffsetDateTime;
use uniqueue::{Call, Client, JobId, JobState, Kind, QueueName, StateSet, stored_time};

use super::report::OnCollision;
use crate::ask::AnswerFuture;
use crate::statement::{OfId, rows};

/// A page: its jobs of the kind, each with what all of its rows say.
#[derive(Debug, Deserialize)]
pub(super) struct PageRow {
    /// The number of its jobs, of all kinds.
    pub(super) scanned: u64,
    /// The last of them. `None`: there were no more jobs.
    pub(super) reached: Option<JobId>,
    /// The database's time.
    #[serde(with = "stored_time")]
    pub(super) now: OffsetDateTime,
    pub(super) job: Option<SeenRow>,
}

/// A job as a backfill sees it.
#[derive(Debug, Deserialize)]
pub(super) struct SeenRow {
    pub(super) id: JobId,
    pub(super) queue: String,
    pub(super) state: JobState,
    pub(super) args: Box<RawValue>,
    pub(super) meta: Map<String, Value>,
    pub(super) attempt: i16,
    #[serde(with = "stored_time")]
    pub(super) created_at: OffsetDateTime,
    #[serde(with = "stored_time")]
    pub(super) scheduled_at: OffsetDateTime,
    /// The same as the database writes it, with its full range, including infinity.
    pub(super) due: String,
    pub(super) was_attempted: bool,
    pub(super) unique_key: Option<String>,
    unique_states: Option<i16>,
    #[serde(with = "stored_time::option")]
    pub(super) unique_until: Option<OffsetDateTime>,
    pub(super) until_start: bool,
    pub(super) discard_on_reentry: bool,
    pub(super) unique_yielded: bool,
    pub(super) group_key: Option<String>,
    group_limit: Option<i16>,
    in_order: Option<bool>,
    pub(super) updates: Option<i32>,
}

impl SeenRow {
    /// The states in which it claims its key.
    pub(super) fn states(&self) -> StateSet {
        self.unique_states.and_then(StateSet::from_bits).unwrap_or_default()
    }

    /// The key, the limit and the order of its group.
    pub(super) fn group(&self) -> Option<(&str, Option<u16>, bool)> {
        let (limit, in_order) = (self.group_limit.map(i16::unsigned_abs), self.in_order.unwrap_or_default());
        self.group_key.as_deref().map(|key| (key, limit, in_order))
    }
}

/// The outcome of a job that was given its key.
#[derive(Debug, Deserialize)]
pub(super) struct Settled {
    pub(super) id: JobId,
    pub(super) kind: Kind,
    pub(super) queue: QueueName,
    pub(super) attempt: u16,
    pub(super) state: JobState,
    pub(super) unique_key: String,
    pub(super) claims: bool,
    /// Whether the job lacks its claim only because another job has it.
    pub(super) unique_yielded: bool,
    /// The job that claims the key instead. `None` for a job that yielded: a transaction that is still open has the
    /// key.
    pub(super) holder: Option<JobId>,
}

/// Gives jobs their keys, and their claims where the keys are free. `discards`: the jobs that are discarded at a re-entry
/// that fails. Returns the outcomes.
/// Jobs that changed meanwhile, and jobs that another transaction has locked, are left out.
pub(super) fn give_keys<'a>(
    client: &'a Client,
    jobs: Vec<Value>,
    discards: HashSet<JobId>,
    on_collision: OnCollision,
) -> Call<'a, Vec<Settled>> {
    #[derive(Deserialize)]
    struct Keyed {
        id: JobId,
        unique_yielded: bool,
    }

    batch(client, move |client, connection| {
        Box::pin(async move {
            let keyed: Vec<Keyed> = rows(client, connection, include_str!("../sql/backfill_keys.sql"), &jobs).await?;
            let yielded: Vec<_> = keyed.iter().filter(|job| job.unique_yielded).map(|job| job.id).collect();
            if !yielded.is_empty() {
                rows::<Value>(client, connection, TAKE_CLAIMS, &yielded).await?;
            }
            let keyed: Vec<_> = keyed.iter().map(|job| job.id).collect();
            let settled: Vec<Settled> =
                rows(client, connection, include_str!("../sql/backfill_outcomes.sql"), &keyed).await?;
            let ends: Vec<_> = (settled.iter())
                .map(|job| (job.id, discards.contains(&job.id), job.holder.filter(|_| on_collision.cancels(job.state))))
                .filter(|(_, discards, holder)| *discards || holder.is_some())
                .map(|(id, discards, holder)| json!({ "id": id, "discard_on_reentry": discards, "holder": holder }))
                .collect();
            if !ends.is_empty() {
                rows::<Value>(client, connection, include_str!("../sql/backfill_settle.sql"), &ends).await?;
            }
            Ok(settled)
        })
    })
}

/// Takes the claims of jobs whose keys are free.
const TAKE_CLAIMS: &str = "\
SELECT /* schema */_take_claims(ARRAY(SELECT i.id::uuid FROM jsonb_array_elements_text($1::jsonb) AS i (id))) AS discarded";

/// Puts waiting jobs in their groups. Returns those that are in them now. Jobs that changed meanwhile, and jobs that
/// another transaction has locked, are left out.
pub(super) fn give_groups(client: &Client, jobs: Vec<Value>) -> Call<'_, HashSet<JobId>> {
    batch(client, move |client, connection| {
        Box::pin(async move {
            let grouped: Vec<OfId> =
                rows(client, connection, include_str!("../sql/backfill_groups.sql"), &jobs).await?;
            Ok(grouped.into_iter().map(|job| job.id).collect())
        })
    })
}

/// The jobs that claim these keys now.
pub(super) fn holders(client: &Client, keys: Vec<String>) -> Call<'_, HashMap<String, JobId>> {
    #[derive(Deserialize)]
    struct Holder {
        unique_key: String,
        id: JobId,
    }

    Call::new(client, move |client, connection| {
        Box::pin(async move {
            let holders = rows(client, connection, include_str!("../sql/backfill_holders.sql"), &keys).await?;
            Ok(holders.into_iter().map(|holder: Holder| (holder.unique_key, holder.id)).collect())
        })
    })
}

/// A change of a batch. Each of its statements must see what rivals have committed.
fn batch<'a, T: Send + 'static>(
    client: &'a Client,
    change: impl for<'c> FnOnce(&'c Client, &'c mut PgConnection) -> AnswerFuture<'c, T> + Send + 'static,
) -> Call<'a, T> {
    Call::change(client, "backfill", Value::Null, move |client, connection| {
        Box::pin(async move {
            let mut transaction: Transaction<'_, Postgres> =
                connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
            let answer = change(client, &mut transaction).await?;
            transaction.commit().await?;
            Ok(answer)
        })
    })
}
