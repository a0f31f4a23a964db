//! A batch: inputs with equal keys folded into rows.

use std::collections::HashMap;

use super::edges::of_leaders;
use crate::store::{self, Edge, NewRow};
use crate::unique::{Claim, OnConflict};
use crate::words::state::JobState;

/// Rows ready to be sent.
pub(super) struct FoldedBatch {
    rows: Vec<NewRow>,
    /// Whether keys must be taken one by one.
    in_order: bool,
    /// Whether ids may be there already.
    may_exist: bool,
    /// For each input, the row that is sent for it.
    leaders: Vec<usize>,
    /// The edges from rows to their parents.
    edges: Vec<Edge>,
}

impl FoldedBatch {
    /// Leaves out the inputs that are surely duplicates of an earlier one in the same batch, so that the keys of what is
    /// sent differ. With `has_given_ids` a row may be there already.
    pub(super) fn fold(rows: Vec<NewRow>, has_given_ids: bool) -> Self {
        if rows.iter().all(|row| row.claim.is_none()) {
            let leaders = (0..rows.len()).collect();
            return Self { rows, in_order: has_given_ids, may_exist: has_given_ids, leaders, edges: Vec::new() };
        }
        let needs_order = has_given_ids || rows.iter().any(needs_order);
        let mut first_of: HashMap<&str, usize> = HashMap::with_capacity(rows.len());
        let mut leaders = Vec::with_capacity(rows.len());
        let mut is_sent = vec![true; rows.len()];
        let mut is_unsure = false;
        for (index, row) in rows.iter().enumerate() {
            let first = match &row.claim {
                Some(claim) => *first_of.entry(&claim.key).or_insert(index),
                None => index,
            };
            if first != index {
                is_sent[index] = false;
                is_unsure |= !surely_claims(&rows[first]);
            }
            leaders.push(first);
        }
        if needs_order || is_unsure {
            let leaders = (0..rows.len()).collect();
            return Self { rows, in_order: true, may_exist: has_given_ids, leaders, edges: Vec::new() };
        }
        // Places move up by what was left out before them.
        let mut place = 0;
        let places: Vec<usize> = is_sent
            .iter()
            .map(|sent| {
                let here = place;
                place += usize::from(*sent);
                here
            })
            .collect();
        let leaders = leaders.into_iter().map(|leader| places[leader]).collect();
        let rows = (rows.into_iter().zip(is_sent)).filter_map(|(row, sent)| sent.then_some(row)).collect();
        Self { rows, in_order: false, may_exist: false, leaders, edges: Vec::new() }
    }

    /// Adds the edges of the inputs.
    pub(super) fn with_edges(self, edges: Vec<Edge>) -> Self {
        if edges.is_empty() {
            return self;
        }
        Self { edges: of_leaders(edges, &self.leaders), ..self }
    }

    /// The batch for the database, and for each input the row that is sent for it. `is_each`: the inputs are of several
    /// callers.
    pub(super) fn into_parts(self, is_each: bool) -> (store::InsertBatch, Vec<usize>) {
        let folded = self.folded();
        let Self { rows, in_order, may_exist, leaders, edges } = self;
        (store::InsertBatch { rows, in_order, may_exist, is_each, folded, edges }, leaders)
    }

    /// How many more inputs each row stands for. `None`: none does for any.
    fn folded(&self) -> Option<Vec<i32>> {
        if self.leaders.len() == self.rows.len() {
            return None;
        }
        let mut folded = vec![-1; self.rows.len()];
        self.leaders.iter().for_each(|leader| folded[*leader] += 1);
        Some(folded)
    }
}

/// Whether a row does more with a duplicate than a look at its key can tell.
pub(super) fn needs_order(row: &NewRow) -> bool {
    row.claim.as_ref().is_some_and(|claim| claim.on_conflict != OnConflict::Ignore)
}

/// Whether a row claims its key from the start, whichever state the database's clock gives it.
fn surely_claims(row: &NewRow) -> bool {
    let covers = |claim: &Claim, states: &[JobState]| states.iter().all(|state| claim.states.contains(*state));
    row.claim.as_ref().is_some_and(|claim| {
        if row.is_pending {
            covers(claim, &[JobState::Pending])
        } else {
            covers(claim, &[JobState::Available, JobState::Scheduled])
        }
    })
}
