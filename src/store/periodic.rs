//! Periodic jobs: definitions, and running their slots.

use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::insert::{Columns, NewRow};
use super::row::Stored;
use super::{Store, interval, milliseconds, query};
use crate::error::Result;
use crate::schedule::CatchUp;
use crate::words::ident::{JobId, Kind, PeriodicName, QueueName};
use crate::words::opts::Expiry;

/// A checked definition, as it is sent to the database.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: PeriodicName,
    pub(crate) schedule: String,
    pub(crate) time_zone: String,
    pub(crate) catch_up: CatchUp,
    /// A runner defines it again at its next start.
    pub(crate) is_in_code: bool,
    /// JSON's null: none, also where the registered kind has one.
    pub(crate) unique_policy: Option<Value>,
    /// The template of its jobs.
    pub(crate) row: NewRow,
    pub(crate) of_kind: OfKind,
}

/// The options that the jobs of a definition take from their registered kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct OfKind {
    /// Whether they take anything: no type says all of it.
    pub(crate) is_any: bool,
    pub(crate) queue: bool,
    pub(crate) priority: bool,
    pub(crate) max_attempts: bool,
}

impl Definition {
    /// A digest by which two definitions of one name are compared.
    pub(crate) fn digest(&self) -> String {
        let Self { name: _, schedule, time_zone, catch_up, is_in_code: _, unique_policy, row, of_kind } = self;
        let group = row.group.as_ref().map(|group| (group.key.as_str(), group.limit, group.in_order));
        let NewRow { kind, args, meta, .. } = row;
        let text = serde_json::json!([
            schedule,
            time_zone,
            catch_up,
            unique_policy,
            kind.as_str(),
            self.queue(),
            args,
            meta,
            self.priority(),
            self.max_attempts(),
            group,
            of_kind.is_any,
            self.expires_in().map(|length| length.as_micros().to_string())
        ]);
        let hash = Sha256::digest(text.to_string().as_bytes());
        hash.iter().take(8).fold(String::new(), |digest, byte| format!("{digest}{byte:02x}"))
    }

    /// Zero: the jobs do not expire. `None`: as the registered kind says.
    fn expires_in(&self) -> Option<Duration> {
        match self.row.expiry {
            Some(Expiry::In(length)) => Some(length),
            Some(Expiry::Never | Expiry::At(_)) => Some(Duration::ZERO),
            None => None,
        }
    }

    fn queue(&self) -> Option<&str> {
        (!self.of_kind.queue).then(|| self.row.queue.as_str())
    }

    fn priority(&self) -> Option<i16> {
        (!self.of_kind.priority).then_some(self.row.priority)
    }

    fn max_attempts(&self) -> Option<i16> {
        (!self.of_kind.max_attempts).then(|| i16::try_from(self.row.max_attempts).unwrap_or(i16::MAX))
    }
}

/// A periodic job that is due.
#[derive(Clone, Debug)]
pub(crate) struct DuePeriodic {
    pub(crate) name: String,
    pub(crate) schedule: String,
    pub(crate) time_zone: String,
    pub(crate) catch_up: CatchUp,
    pub(crate) starts_at: OffsetDateTime,
    pub(crate) next_at: Option<OffsetDateTime>,
    /// Whether its times were set before the database's clock went back.
    pub(crate) is_ahead: bool,
    /// The database's time.
    pub(crate) asked_at: OffsetDateTime,
}

impl DuePeriodic {
    fn read(row: &PgRow) -> Result<Self> {
        Ok(Self {
            name: row.try_get("name")?,
            schedule: row.try_get("schedule")?,
            time_zone: row.try_get("time_zone")?,
            catch_up: row.try_get::<&str, _>("catch_up")?.parse()?,
            starts_at: row.try_get::<Stored, _>("starts_at")?.0,
            next_at: row.try_get::<Option<Stored>, _>("next_at")?.map(|at| at.0),
            is_ahead: row.try_get("is_ahead")?,
            asked_at: row.try_get::<Stored, _>("asked_at")?.0,
        })
    }
}

/// The outcome of a slot.
#[derive(Debug)]
pub(crate) struct SlotRun {
    pub(crate) slot: OffsetDateTime,
    pub(crate) outcome: String,
    /// The slot's job, or the job that claims its key.
    pub(crate) job: Option<JobId>,
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
}

impl Store<'_> {
    /// Defines a periodic job, or changes the one of its name.
    pub(crate) async fn define_periodic(self, definition: &Definition) -> Result<()> {
        let Definition { name, schedule, time_zone, catch_up, is_in_code, unique_policy, row, of_kind } = definition;
        let defining = query(&self.statements.define_periodic)
            .bind(name.as_str())
            .bind(row.kind.as_str())
            .bind(definition.queue())
            .bind(Json(&*row.args))
            .bind(Json(&row.meta))
            .bind(definition.priority())
            .bind(definition.max_attempts())
            .bind(schedule)
            .bind(time_zone)
            .bind(unique_policy)
            .bind(catch_up.as_str())
            .bind(if *is_in_code { "code" } else { "database" });
        let defining = Columns::of_one(defining, row).group_alone().bind(of_kind.is_any);
        defining.bind(definition.expires_in().map(interval)).execute(self.connection).await?;
        Ok(())
    }

    /// The periodic jobs that are not paused, due or not.
    #[cfg(feature = "testing")]
    pub(crate) async fn periodic_slots(self) -> Result<Vec<DuePeriodic>> {
        let rows = query(&self.statements.periodic_slots).fetch_all(self.connection).await?;
        rows.iter().map(DuePeriodic::read).collect()
    }

    /// Moves a periodic job to another slot, and inserts the jobs of the slots before it.
    #[cfg(feature = "testing")]
    pub(crate) async fn run_passed_slots(self, name: &str, next_at: OffsetDateTime, slots: i32) -> Result<()> {
        query(&self.statements.run_passed_slots).bind(name).bind(next_at).bind(slots).execute(self.connection).await?;
        Ok(())
    }

    /// The periodic jobs that are due, how long until others are, and whether there are any.
    pub(crate) async fn due_periodic(self, limit: i64) -> Result<(Vec<DuePeriodic>, Option<Duration>, bool)> {
        let rows =
            query(&self.statements.due_periodic).persistent(false).bind(limit).fetch_all(self.connection).await?;
        let Some(first) = rows.first() else { return Ok((Vec::new(), None, false)) };
        let (next_in, has_any) = (first.try_get::<Option<i64>, _>("next_in")?, first.try_get("has_any")?);
        // If no periodic job is due, there is still a row.
        let is_any = first.try_get::<Option<&str>, _>("name")?.is_some();
        let due = rows.iter().filter(|_| is_any).map(DuePeriodic::read).collect::<Result<_>>()?;
        Ok((due, next_in.map(milliseconds), has_any))
    }

    /// Inserts the jobs of slots and moves the periodic job to its next slot, if no other runner did. Returns each slot's
    /// outcome.
    pub(crate) async fn run_periodic(
        self,
        seen: &DuePeriodic,
        slots: &[OffsetDateTime],
        moves_to: OffsetDateTime,
    ) -> Result<Vec<SlotRun>> {
        let rows = query(&self.statements.run_periodic)
            .persistent(false)
            .bind(&seen.name)
            .bind(seen.next_at)
            .bind(seen.starts_at)
            .bind(slots)
            .bind(moves_to)
            .fetch_all(self.connection)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(SlotRun {
                    slot: row.try_get::<Stored, _>("slot")?.0,
                    outcome: row.try_get("outcome")?,
                    job: row.try_get::<Option<Uuid>, _>("job")?.map(JobId::from),
                    kind: Kind::from_stored(row.try_get("kind")?),
                    queue: QueueName::from_stored(row.try_get("queue")?),
                })
            })
            .collect()
    }

    /// Stores in its row why a periodic job cannot be run. `false`: the row has this problem already.
    pub(crate) async fn flag_periodic(self, name: &str, problem: &str) -> Result<bool> {
        let flagged = query(&self.statements.flag_periodic).persistent(false).bind(name).bind(problem);
        Ok(flagged.execute(self.connection).await?.rows_affected() > 0)
    }
}
