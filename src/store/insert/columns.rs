//! Rows on their way into a statement: an array for each column.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::postgres::types::PgInterval;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::{NewRow, stored_count};
use crate::store::interval::claim_length;
use crate::store::{Query, interval};
use crate::unique::Claim;
use crate::words::group::Group;
use crate::words::ident::{Kind, QueueName};
use crate::words::opts::Expiry;

/// The columns of a batch. One that is the same for all rows has one element, and one that is null for all has none:
/// most columns of most batches shrink to nothing.
pub(super) struct Columns<'a> {
    ids: Vec<Uuid>,
    kinds: Vec<&'a str>,
    queues: Vec<&'a str>,
    args: Vec<Json<&'a RawValue>>,
    metas: Vec<Json<&'a Map<String, Value>>>,
    priorities: Vec<i16>,
    max_attempts: Vec<i16>,
    times: Times,
    claims: ClaimColumns<'a>,
    groups: Groups<'a>,
    expiries: Expiries,
}

/// When the rows are due.
struct Times {
    scheduled_ats: Vec<Option<OffsetDateTime>>,
    delays: Vec<Option<PgInterval>>,
    pendings: Vec<bool>,
}

/// The claims of the rows.
struct ClaimColumns<'a> {
    keys: Vec<Option<&'a str>>,
    states: Vec<Option<i16>>,
    periods: Vec<Option<PgInterval>>,
    ttls: Vec<Option<PgInterval>>,
    until_starts: Vec<bool>,
    discards: Vec<bool>,
    on_conflicts: Vec<Cow<'static, str>>,
}

/// The groups of the rows.
struct Groups<'a> {
    keys: Vec<Option<&'a str>>,
    limits: Vec<Option<i16>>,
    in_orders: Vec<Option<bool>>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(rows: &'a [NewRow]) -> Self {
        Self {
            ids: rows.iter().map(|row| row.id.as_uuid()).collect(),
            kinds: same(rows, |row| &row.kind).into_iter().map(Kind::as_str).collect(),
            queues: same(rows, |row| &row.queue).into_iter().map(QueueName::as_str).collect(),
            args: rows.iter().map(|row| Json(&*row.args)).collect(),
            metas: same(rows, |row| Json(&row.meta)),
            priorities: same(rows, |row| row.priority),
            max_attempts: same(rows, |row| stored_count(row.max_attempts)),
            times: Times::of(rows),
            claims: ClaimColumns::of(rows),
            groups: Groups::of(rows),
            expiries: Expiries::of(rows),
        }
    }

    /// Whether a row may not run at once.
    fn have_times(&self) -> bool {
        let Times { scheduled_ats, delays, pendings } = &self.times;
        !(scheduled_ats.is_empty() && delays.is_empty() && pendings.is_empty())
    }

    /// Binds rows that have no claims.
    pub(super) fn bind_plain_to(&self, query: Query) -> Query {
        let query = self.groups.bind_to(self.bind_jobs_to(query).bind(self.have_times()));
        self.expiries.bind_to(query)
    }

    /// Binds the rows as `new_jobs.sql` reads them. `may_exist`: whether their ids may be there already.
    pub(super) fn bind_to(&self, query: Query, may_exist: bool) -> Query {
        let query = self
            .bind_jobs_to(query)
            .bind(&self.claims.keys)
            .bind(&self.claims.states)
            .bind(&self.claims.periods)
            .bind(&self.claims.ttls)
            .bind(&self.claims.until_starts)
            .bind(&self.claims.discards)
            .bind(&self.claims.on_conflicts);
        self.expiries.bind_to(self.groups.bind_to(query)).bind(may_exist)
    }

    /// Binds all but the claims and the groups, with which every statement begins.
    fn bind_jobs_to(&self, query: Query) -> Query {
        query
            .bind(&self.ids)
            .bind(&self.kinds)
            .bind(&self.queues)
            .bind(&self.args)
            .bind(&self.metas)
            .bind(&self.priorities)
            .bind(&self.max_attempts)
            .bind(&self.times.scheduled_ats)
            .bind(&self.times.delays)
            .bind(&self.times.pendings)
    }
}

impl Times {
    fn of(rows: &[NewRow]) -> Self {
        let is_any_pending = rows.iter().any(|row| row.is_pending);
        Self {
            scheduled_ats: known(rows, |row| row.scheduled_at),
            delays: known(rows, |row| row.delay.map(interval)),
            pendings: if is_any_pending { rows.iter().map(|row| row.is_pending).collect() } else { Vec::new() },
        }
    }
}

impl<'a> ClaimColumns<'a> {
    fn of(rows: &'a [NewRow]) -> Self {
        fn claim(row: &NewRow) -> Option<&Claim> {
            row.claim.as_ref()
        }
        Self {
            keys: rows.iter().map(|row| claim(row).map(|claim| claim.key.as_str())).collect(),
            states: same(rows, |row| claim(row).map(|claim| claim.states.bits())),
            periods: known(rows, |row| claim(row)?.period.map(claim_length)),
            ttls: known(rows, |row| claim(row)?.ttl.map(claim_length)),
            until_starts: same(rows, |row| claim(row).is_some_and(|claim| claim.until_start)),
            discards: same(rows, |row| claim(row).is_some_and(|claim| claim.discard_on_reentry)),
            on_conflicts: same(rows, NewRow::on_conflict),
        }
    }
}

impl Expiries {
    fn of(rows: &[NewRow]) -> Self {
        Self {
            ats: known(rows, |row| Expiry::parts(row.expiry).0),
            lengths: known(rows, |row| Expiry::parts(row.expiry).1.map(interval)),
        }
    }

    fn bind_to(&self, query: Query) -> Query {
        query.bind(&self.ats).bind(&self.lengths)
    }
}

impl<'a> Groups<'a> {
    fn of(rows: &'a [NewRow]) -> Self {
        fn group(row: &NewRow) -> Option<&Group> {
            row.group.as_ref()
        }
        Self {
            keys: known(rows, |row| group(row).map(|group| group.key.as_str())),
            limits: known(rows, |row| group(row)?.limit.map(stored_count)),
            in_orders: known(rows, |row| group(row)?.in_order.then_some(true)),
        }
    }

    fn bind_to(&self, query: Query) -> Query {
        query.bind(&self.keys).bind(&self.limits).bind(&self.in_orders)
    }
}

/// When the rows expire.
struct Expiries {
    ats: Vec<Option<OffsetDateTime>>,
    lengths: Vec<Option<PgInterval>>,
}

/// A column with one element where all rows have the same.
fn same<'a, T: PartialEq>(rows: &'a [NewRow], of: impl Fn(&'a NewRow) -> T) -> Vec<T> {
    let mut values = rows.iter().map(&of);
    match values.next() {
        Some(first) if values.all(|value| value == first) => vec![first],
        _ => rows.iter().map(of).collect(),
    }
}

/// A column without elements where all rows have null.
fn known<'a, T>(rows: &'a [NewRow], of: impl Fn(&'a NewRow) -> Option<T>) -> Vec<Option<T>> {
    if rows.iter().all(|row| of(row).is_none()) {
        return Vec::new();
    }
    rows.iter().map(of).collect()
}
