//! The columns of rows on their way into a statement. Each is written once, for a statement of one row and for one of many.

use sqlx::types::Json;
use sqlx::{Encode, Postgres, Type};
use uuid::Uuid;

use super::answer::place;
use super::row::{Edge, EdgeParent, NewRow, stored_count};
use crate::store::query::claim_length;
use crate::store::{Query, interval};
use crate::unique::OnReentry;
use crate::words::opts::Expiry;

/// Binds the columns of rows one after another. One row binds a value for each column, a batch an array. An array whose
/// values are all the same has one element, and one whose values are all null has none: most columns of most batches
/// shrink to nothing.
pub(in crate::store) struct Columns<'r> {
    query: Query,
    rows: Vec<&'r NewRow>,
    is_batch: bool,
}

impl<'r> Columns<'r> {
    pub(in crate::store) fn of_one(query: Query, row: &'r NewRow) -> Self {
        Self { query, rows: vec![row], is_batch: false }
    }

    pub(super) fn of_batch(query: Query, rows: Vec<&'r NewRow>) -> Self {
        Self { query, rows, is_batch: true }
    }

    /// Rows that have no claims.
    pub(super) fn plain(self) -> Query {
        self.job().group().expiry().query
    }

    /// Rows that ignore duplicates.
    pub(super) fn unique(self) -> Query {
        self.job().claim().group().expiry().query
    }

    /// Rows as `new_job.sql` and `new_jobs.sql` read them. `may_exist`: whether their ids may be there already.
    pub(in crate::store) fn any(self, may_exist: bool) -> Query {
        let all = self.job().claim().group().expiry().same(|row| row.on_conflict().as_str());
        Self { query: all.query.bind(may_exist), ..all }.known(|row| row.changes().map(Json)).query
    }

    /// The group of a row alone.
    #[cfg(feature = "periodic")]
    pub(in crate::store) fn group_alone(self) -> Query {
        self.group().query
    }

    fn job(self) -> Self {
        self.each(|row| row.id.as_uuid())
            .same(|row| row.kind.as_str())
            .same(|row| row.queue.as_str())
            .each(|row| Json(&*row.args))
            .same(|row| Json(&row.meta))
            .same(|row| row.priority)
            .same(|row| stored_count(row.max_attempts))
            .known(|row| row.scheduled_at)
            .known(|row| row.delay.map(interval))
            .flag(|row| row.is_pending)
    }

    fn claim(self) -> Self {
        self.each(NewRow::key)
            .same(|row| row.claim.as_ref().map(|claim| claim.terms.states.bits()))
            .known(|row| row.claim.as_ref()?.terms.period.map(claim_length))
            .known(|row| row.claim.as_ref()?.terms.ttl.map(claim_length))
            .flag(|row| row.claim.as_ref().is_some_and(|claim| claim.terms.until_start))
            .flag(|row| row.claim.as_ref().is_some_and(|claim| claim.terms.on_reentry == OnReentry::Discard))
    }

    fn group(self) -> Self {
        self.known(|row| row.group.as_ref().map(|group| group.key.as_str()))
            .known(|row| row.group.as_ref()?.limit.map(stored_count))
            .known(|row| row.group.as_ref()?.in_order.then_some(true))
    }

    fn expiry(self) -> Self {
        self.known(|row| Expiry::parts(row.expiry).0).known(|row| Expiry::parts(row.expiry).1.map(interval))
    }

    /// A column that differs from row to row.
    fn each<T>(self, of: impl Fn(&'r NewRow) -> T) -> Self
    where
        T: Encode<'r, Postgres> + Type<Postgres>,
        Vec<T>: Encode<'r, Postgres> + Type<Postgres>,
    {
        let query = match self.rows.as_slice() {
            [row] if !self.is_batch => self.query.bind(of(row)),
            rows => self.query.bind(rows.iter().copied().map(of).collect::<Vec<_>>()),
        };
        Self { query, ..self }
    }

    /// A column that is often the same for all rows.
    fn same<T>(mut self, of: impl Fn(&'r NewRow) -> T) -> Self
    where
        T: Encode<'r, Postgres> + PartialEq + Type<Postgres>,
        Vec<T>: Encode<'r, Postgres> + Type<Postgres>,
    {
        if let (true, [first, others @ ..]) = (self.is_batch, self.rows.as_slice()) {
            let first = of(first);
            if others.iter().copied().all(|row| of(row) == first) {
                self.query = self.query.bind(vec![first]);
                return self;
            }
        }
        self.each(of)
    }

    /// A column that is often null for all rows.
    fn known<T>(mut self, of: impl Fn(&'r NewRow) -> Option<T>) -> Self
    where
        Option<T>: Encode<'r, Postgres> + Type<Postgres>,
        Vec<Option<T>>: Encode<'r, Postgres> + Type<Postgres>,
    {
        if self.is_batch && self.rows.iter().copied().all(|row| of(row).is_none()) {
            self.query = self.query.bind(Vec::<Option<T>>::new());
            return self;
        }
        self.each(of)
    }

    /// A column that is often false for all rows.
    fn flag(mut self, of: impl Fn(&NewRow) -> bool) -> Self {
        if self.is_batch && !self.rows.iter().copied().any(&of) {
            self.query = self.query.bind(Vec::<bool>::new());
            return self;
        }
        self.each(of)
    }
}

/// Whether a row may not run at once.
pub(super) fn have_times(rows: &[NewRow]) -> bool {
    rows.iter().any(|row| row.scheduled_at.is_some() || row.delay.is_some() || row.is_pending)
}

/// Binds edges as `insert_graph.sql` reads them: an array for each column.
pub(super) fn bind_edges(query: Query, edges: &[Edge]) -> Query {
    let children: Vec<i32> = edges.iter().map(|edge| place(edge.child)).collect();
    let (places, ids): (Vec<Option<i32>>, Vec<Option<Uuid>>) = edges
        .iter()
        .map(|edge| match edge.parent {
            EdgeParent::OfBatch(parent) => (Some(place(parent)), None),
            EdgeParent::Stored(id) => (None, Some(id.as_uuid())),
        })
        .unzip();
    let conditions: Vec<&str> = edges.iter().map(|edge| edge.condition.as_str()).collect();
    query.bind(children).bind(places).bind(ids).bind(conditions)
}
