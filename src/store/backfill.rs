//! Keys and groups for queued jobs: the reads and writes of a backfill.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::types::Json;
use sqlx::{Connection, PgConnection, Postgres, Row, Transaction};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::Stored;
use super::select::state_names;
use super::{Statements, query};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::ident::{JobId, Kind, QueueName};
use crate::state::JobState;
use crate::unique::StateSet;

/// A job as a backfill sees it.
#[derive(Clone, Debug)]
pub(crate) struct SeenRow {
    pub(crate) id: JobId,
    pub(crate) queue: String,
    pub(crate) state: JobState,
    pub(crate) args: Box<RawValue>,
    pub(crate) meta: Map<String, Value>,
    pub(crate) attempt: i16,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) scheduled_at: OffsetDateTime,
    /// The same in seconds, with the database's full range, including infinity.
    pub(crate) due_epoch: f64,
    pub(crate) was_attempted: bool,
    pub(crate) unique_key: Option<String>,
    pub(crate) unique_states: StateSet,
    pub(crate) unique_until: Option<OffsetDateTime>,
    pub(crate) until_start: bool,
    pub(crate) discard_on_reentry: bool,
    pub(crate) has_yielded: bool,
    pub(crate) group: Option<Group>,
    pub(crate) updates: Option<i32>,
}

/// A page of jobs.
#[derive(Debug)]
pub(crate) struct BackfillPage {
    /// The number of its jobs, of all kinds.
    pub(crate) scanned: u64,
    /// The last of them. `None`: there were no more jobs.
    pub(crate) reached: Option<JobId>,
    /// Its jobs of the kind.
    pub(crate) jobs: Vec<SeenRow>,
}

/// The jobs of a page that are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedRow<'a> {
    pub(crate) kind: &'a Kind,
    /// The final states of jobs that are read as well.
    pub(crate) final_states: StateSet,
    /// Only these jobs. `None`: all.
    pub(crate) ids: Option<&'a [Uuid]>,
}

/// Reads the next page: up to `limit` jobs after `after`, up to `last`.
pub(crate) async fn backfill_rows(
    connection: &mut PgConnection,
    statements: &Statements,
    wanted: WantedRow<'_>,
    after: JobId,
    last: JobId,
    limit: i64,
) -> Result<BackfillPage> {
    let query = query(&statements.backfill_rows).persistent(false);
    let rows = query
        .bind(after.as_uuid())
        .bind(last.as_uuid())
        .bind(limit)
        .bind(wanted.kind.as_str())
        .bind(state_names(wanted.final_states))
        .bind(wanted.ids)
        .fetch_all(connection)
        .await?;
    let mut page = BackfillPage { scanned: 0, reached: None, jobs: Vec::with_capacity(rows.len()) };
    for row in &rows {
        page.scanned = row.try_get::<i64, _>("scanned")?.unsigned_abs();
        page.reached = row.try_get::<Option<Uuid>, _>("reached")?.map(JobId::from);
        let Some(id) = row.try_get::<Option<Uuid>, _>("id")? else { continue };
        page.jobs.push(SeenRow {
            id: JobId::from(id),
            queue: row.try_get("queue")?,
            state: row.try_get::<&str, _>("state")?.parse()?,
            args: row.try_get("args")?,
            meta: row.try_get::<Json<Map<String, Value>>, _>("meta")?.0,
            attempt: row.try_get("attempt")?,
            created_at: row.try_get::<Stored, _>("created_at")?.0,
            scheduled_at: row.try_get::<Stored, _>("scheduled_at")?.0,
            due_epoch: row.try_get("due_epoch")?,
            was_attempted: row.try_get::<Option<Stored>, _>("attempted_at")?.is_some(),
            unique_key: row.try_get("unique_key")?,
            unique_states: (row.try_get::<Option<i16>, _>("unique_states")?)
                .and_then(StateSet::from_bits)
                .unwrap_or_default(),
            unique_until: row.try_get::<Option<Stored>, _>("unique_until")?.map(|at| at.0),
            until_start: row.try_get("until_start")?,
            discard_on_reentry: row.try_get("discard_on_reentry")?,
            has_yielded: row.try_get("unique_yielded")?,
            group: row
                .try_get::<Option<String>, _>("group_key")?
                .map(|key| {
                    Ok::<_, Error>(Group {
                        key,
                        limit: row.try_get::<Option<i16>, _>("group_limit")?.map(i16::unsigned_abs),
                        in_order: row.try_get::<Option<bool>, _>("in_order")?.unwrap_or_default(),
                    })
                })
                .transpose()?,
            updates: row.try_get("updates")?,
        });
    }
    Ok(page)
}

/// The claim that a job is to have.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    pub(crate) id: JobId,
    pub(crate) unique_key: String,
    pub(crate) unique_states: StateSet,
    pub(crate) unique_until: Option<OffsetDateTime>,
    pub(crate) until_start: bool,
    pub(crate) discard_on_reentry: bool,
    /// The key and the time with which it was seen.
    pub(crate) seen_key: Option<String>,
    pub(crate) seen_due_epoch: f64,
}

/// The outcome of a job that was given its key.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    pub(crate) id: JobId,
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    pub(crate) attempt: u16,
    pub(crate) state: JobState,
    pub(crate) unique_key: String,
    pub(crate) claims: bool,
    /// Whether the job lacks its claim only because another job has it.
    pub(crate) has_yielded: bool,
    /// The job that claims the key instead. `None` for a job that yielded: a transaction that is still open has the
    /// key.
    pub(crate) holder: Option<JobId>,
}

/// Begins a transaction for a batch of a backfill. Each of its statements must see what rivals have committed.
pub(crate) async fn begin_batch(connection: &mut PgConnection) -> Result<Transaction<'_, Postgres>> {
    Ok(connection.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?)
}

/// Gives jobs their keys, and their claims where the keys are free. Returns the outcomes. Jobs that changed meanwhile,
/// and jobs that another transaction has locked, are left out.
pub(crate) async fn backfill_keys(
    connection: &mut PgConnection,
    statements: &Statements,
    jobs: &[Keyed],
) -> Result<Vec<Settled>> {
    let column = |of: fn(&Keyed) -> Uuid| jobs.iter().map(of).collect::<Vec<_>>();
    let ids = column(|job| job.id.as_uuid());
    let keys: Vec<_> = jobs.iter().map(|job| job.unique_key.as_str()).collect();
    let untils: Vec<_> = jobs.iter().map(|job| job.unique_until).collect();
    let states: Vec<_> = jobs.iter().map(|job| job.unique_states.bits()).collect();
    let until_starts: Vec<_> = jobs.iter().map(|job| job.until_start).collect();
    let seen_keys: Vec<_> = jobs.iter().map(|job| job.seen_key.as_deref()).collect();
    let seen_times: Vec<_> = jobs.iter().map(|job| job.seen_due_epoch).collect();
    let query = query(&statements.backfill_keys).persistent(false);
    let query =
        query.bind(ids).bind(keys).bind(untils).bind(states).bind(until_starts).bind(seen_keys).bind(seen_times);
    let keyed: Vec<Uuid> = query.fetch_one(&mut *connection).await?.try_get("ids")?;
    let rows = super::query(&statements.backfill_outcomes).persistent(false).bind(keyed).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            Ok(Settled {
                id: JobId::from(row.try_get::<Uuid, _>("id")?),
                kind: Kind::from_stored(row.try_get("kind")?),
                queue: QueueName::from_stored(row.try_get("queue")?),
                attempt: row.try_get::<i16, _>("attempt")?.unsigned_abs(),
                state: row.try_get::<&str, _>("state")?.parse()?,
                unique_key: row.try_get("unique_key")?,
                claims: row.try_get("claims")?,
                has_yielded: row.try_get("unique_yielded")?,
                holder: row.try_get::<Option<Uuid>, _>("holder")?.map(JobId::from),
            })
        })
        .collect()
}

/// Ends a batch: sets which jobs are discarded at a re-entry that fails, and cancels the jobs that lost their key to
/// another.
pub(crate) async fn backfill_settle(
    connection: &mut PgConnection,
    statements: &Statements,
    discards: &[(JobId, bool)],
    cancelled: &[(JobId, JobId)],
) -> Result<()> {
    let (ids, discards): (Vec<_>, Vec<_>) = discards.iter().map(|(id, discards)| (id.as_uuid(), *discards)).unzip();
    let (cancelled, holders): (Vec<_>, Vec<_>) =
        cancelled.iter().map(|(id, holder)| (id.as_uuid(), holder.as_uuid())).unzip();
    let query = query(&statements.backfill_settle).persistent(false);
    query.bind(ids).bind(discards).bind(cancelled).bind(holders).execute(connection).await?;
    Ok(())
}

/// The group that a job is to have.
#[derive(Clone, Debug)]
pub(crate) struct Grouped {
    pub(crate) id: JobId,
    pub(crate) queue: String,
    pub(crate) group: Group,
    /// The group and the number of updates with which it was seen.
    pub(crate) seen_group: Option<String>,
    pub(crate) seen_updates: Option<i32>,
}

/// Puts waiting jobs in their groups. Returns those that are in them now. Jobs that changed meanwhile, and jobs that
/// another transaction has locked, are left out.
pub(crate) async fn backfill_groups(
    connection: &mut PgConnection,
    statements: &Statements,
    jobs: &[Grouped],
) -> Result<HashSet<JobId>> {
    let ids: Vec<_> = jobs.iter().map(|job| job.id.as_uuid()).collect();
    let keys: Vec<_> = jobs.iter().map(|job| job.group.key.as_str()).collect();
    let limits: Vec<_> = jobs.iter().map(|job| job.group.limit.map(u16::cast_signed)).collect();
    let orders: Vec<_> = jobs.iter().map(|job| job.group.in_order).collect();
    let seen_groups: Vec<_> = jobs.iter().map(|job| job.seen_group.as_deref()).collect();
    let seen_updates: Vec<_> = jobs.iter().map(|job| job.seen_updates).collect();
    // In the order in which a fetch locks them, byte by byte.
    let left: BTreeSet<_> = jobs.iter().filter(|job| job.seen_group.is_some()).map(|job| job.queue.as_str()).collect();
    let query = query(&statements.backfill_groups).persistent(false);
    let query = query.bind(ids).bind(keys).bind(limits).bind(orders).bind(seen_groups).bind(seen_updates);
    let rows = query.bind(left.into_iter().collect::<Vec<_>>()).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(JobId::from(row.try_get::<Uuid, _>("id")?))).collect()
}

/// The jobs that claim these keys now.
pub(crate) async fn holders(
    connection: &mut PgConnection,
    statements: &Statements,
    keys: &[&str],
) -> Result<HashMap<String, JobId>> {
    let rows = query(&statements.holders).persistent(false).bind(keys).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get("unique_key")?, JobId::from(row.try_get::<Uuid, _>("id")?)))).collect()
}
