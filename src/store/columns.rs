//! Rows on their way into a statement: an array for each column.

use std::borrow::Borrow;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::postgres::types::PgInterval;
use sqlx::query::Query;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::insert::NewRow;
use super::interval;
use crate::ident::{Kind, QueueName};
use crate::unique::Claim;

/// The columns that every new row has.
pub(super) struct Columns<'a> {
    pub(super) ids: Vec<Uuid>,
    kinds: Vec<&'a str>,
    queues: Vec<&'a str>,
    pub(super) args: Vec<Json<&'a RawValue>>,
    metas: Vec<Json<&'a Map<String, Value>>>,
    priorities: Vec<i16>,
    max_attempts: Vec<i16>,
    scheduled_ats: Vec<Option<OffsetDateTime>>,
    delays: Vec<Option<PgInterval>>,
    pendings: Vec<bool>,
}

impl<'a> Columns<'a> {
    pub(super) fn of<R: Borrow<NewRow>>(rows: &'a [R]) -> Self {
        Self::new(&Rows { rows, may_fold: false })
    }

    /// With one element for all places where they are alike, and none where all are null, as the quick
    /// statements take it: most columns of most batches shrink to nothing.
    pub(super) fn folded<R: Borrow<NewRow>>(rows: &'a [R]) -> Self {
        Self::new(&Rows { rows, may_fold: true })
    }

    fn new<R: Borrow<NewRow>>(rows: &Rows<'a, R>) -> Self {
        let is_any_pending = rows.each().any(|row| row.is_pending);
        Self {
            ids: rows.each().map(|row| row.id.as_uuid()).collect(),
            kinds: rows.alike(|row| &row.kind).into_iter().map(Kind::as_str).collect(),
            queues: rows.alike(|row| &row.queue).into_iter().map(QueueName::as_str).collect(),
            args: rows.each().map(|row| Json(&*row.args)).collect(),
            metas: rows.alike(|row| Json(&row.meta)),
            priorities: rows.alike(|row| row.priority),
            max_attempts: rows.alike(|row| stored_count(row.max_attempts)),
            scheduled_ats: rows.known(|row| row.scheduled_at),
            delays: rows.known(|row| row.delay.map(interval)),
            pendings: if rows.may_fold && !is_any_pending {
                Vec::new()
            } else {
                rows.each().map(|row| row.is_pending).collect()
            },
        }
    }

    /// Whether the rows, folded, may run now and differ in nothing but their ids and args.
    pub(super) fn are_alike(&self) -> bool {
        let are_now = self.scheduled_ats.is_empty() && self.delays.is_empty() && self.pendings.is_empty();
        let sizes =
            [self.kinds.len(), self.queues.len(), self.metas.len(), self.priorities.len(), self.max_attempts.len()];
        are_now && sizes == [1; 5]
    }

    /// Binds the arrays, which come first in every statement.
    pub(super) fn bind_to<'q>(&'q self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        self.bind_timeless_to(query).bind(&self.scheduled_ats).bind(&self.delays).bind(&self.pendings)
    }

    /// Binds the arrays but those that say when.
    pub(super) fn bind_timeless_to<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        query
            .bind(&self.ids)
            .bind(&self.kinds)
            .bind(&self.queues)
            .bind(&self.args)
            .bind(&self.metas)
            .bind(&self.priorities)
            .bind(&self.max_attempts)
    }
}

/// The columns of the rows' claims.
pub(super) struct Claims<'a> {
    keys: Vec<Option<&'a str>>,
    states: Vec<Option<i16>>,
    periods: Vec<Option<PgInterval>>,
    ttls: Vec<Option<PgInterval>>,
    until_starts: Vec<bool>,
    discards: Vec<bool>,
}

impl<'a> Claims<'a> {
    pub(super) fn of(rows: &'a [NewRow]) -> Self {
        Self::new(&Rows { rows, may_fold: false })
    }

    /// Shrunk as [`Columns::folded`].
    pub(super) fn folded<R: Borrow<NewRow>>(rows: &'a [R]) -> Self {
        Self::new(&Rows { rows, may_fold: true })
    }

    fn new<R: Borrow<NewRow>>(rows: &Rows<'a, R>) -> Self {
        fn claim(row: &NewRow) -> Option<&Claim> {
            row.claim.as_ref()
        }
        Self {
            keys: rows.each().map(|row| claim(row).map(|claim| claim.key.as_str())).collect(),
            states: rows.alike(|row| claim(row).map(|claim| claim.states.bits())),
            periods: rows.known(|row| claim(row)?.period.map(interval)),
            ttls: rows.known(|row| claim(row)?.ttl.map(interval)),
            until_starts: rows.alike(|row| claim(row).is_some_and(|claim| claim.until_start)),
            discards: rows.alike(|row| claim(row).is_some_and(|claim| claim.discard_on_reentry)),
        }
    }

    /// Binds the arrays, which come after the rows' own.
    pub(super) fn bind_to<'q>(&'q self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        query
            .bind(&self.keys)
            .bind(&self.states)
            .bind(&self.periods)
            .bind(&self.ttls)
            .bind(&self.until_starts)
            .bind(&self.discards)
    }

    /// Binds the arrays but those that say until when.
    pub(super) fn bind_undated_to<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        query.bind(&self.keys).bind(&self.states).bind(&self.until_starts).bind(&self.discards)
    }
}

struct Rows<'a, R> {
    rows: &'a [R],
    may_fold: bool,
}

impl<'a, R: Borrow<NewRow>> Rows<'a, R> {
    fn each(&self) -> impl Iterator<Item = &'a NewRow> {
        self.rows.iter().map(Borrow::borrow)
    }

    /// A column that shrinks to one element where all are alike.
    fn alike<T: PartialEq>(&self, of: impl Fn(&'a NewRow) -> T) -> Vec<T> {
        let mut values = self.each().map(&of);
        match values.next() {
            Some(first) if self.may_fold && values.all(|value| value == first) => vec![first],
            _ => self.each().map(of).collect(),
        }
    }

    /// A column that shrinks to nothing where all are null.
    fn known<T>(&self, of: impl Fn(&'a NewRow) -> Option<T>) -> Vec<Option<T>> {
        if self.may_fold && self.each().all(|row| of(row).is_none()) {
            return Vec::new();
        }
        self.each().map(of).collect()
    }
}

/// A count as the table stores it; the options keep it in range.
pub(super) fn stored_count(count: u16) -> i16 {
    i16::try_from(count).unwrap_or(i16::MAX)
}
