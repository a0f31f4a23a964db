//! Edges on their way into a statement: an array for each column.

use uuid::Uuid;

use crate::store::Query;
use crate::words::after::AfterCondition;
use crate::words::ident::JobId;

/// The parent of a job of the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    /// The place of the job that waits, counted from 0.
    pub(crate) child: usize,
    pub(crate) parent: EdgeParent,
    pub(crate) condition: AfterCondition,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum EdgeParent {
    /// An earlier job of the batch, by its place.
    OfBatch(usize),
    Stored(JobId),
}

/// Binds edges as `insert_graph.sql` reads them.
pub(super) fn bind_edges(query: Query, edges: &[Edge]) -> Query {
    let place = |place: usize| i32::try_from(place + 1).unwrap_or(i32::MAX);
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
