//! A batch: inputs with equal keys folded into rows, and the edges from each child to its parents.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::store::{Edge, EdgeParent, InsertBatch, NewRow};
use crate::unique::{Claim, OnConflict};
use crate::words::after::Parent;
use crate::words::job::NewJob;
use crate::words::state::JobState;

/// Rows ready to be sent, and for each input the row that is sent for it.
pub(super) struct FoldedBatch {
    pub(super) batch: InsertBatch,
    pub(super) leaders: Vec<usize>,
}

impl FoldedBatch {
    /// Leaves out the inputs that are surely duplicates of an earlier one in the same batch, so that the keys of what is
    /// sent differ. `may_exist`: whether a row may be there already. The edges are those of the inputs.
    pub(super) fn fold(mut rows: Vec<NewRow>, may_exist: bool, edges: Vec<Edge>) -> Self {
        let firsts = if may_exist || rows.iter().any(needs_order) { None } else { firsts(&rows) };
        let one_by_one = firsts.is_none();
        let leaders = match firsts {
            Some(firsts) => leave_out(&mut rows, &firsts),
            None => (0..rows.len()).collect(),
        };
        let folded = (leaders.len() > rows.len()).then(|| {
            let mut folded = vec![-1; rows.len()];
            leaders.iter().for_each(|leader| folded[*leader] += 1);
            folded
        });
        let edges = if folded.is_some() { of_leaders(edges, &leaders) } else { edges };
        Self { batch: InsertBatch { rows, one_by_one, may_exist, is_each: false, folded, edges }, leaders }
    }
}

/// For each row the first one with its key. `None`: only the database can tell whether that one claims the key.
fn firsts(rows: &[NewRow]) -> Option<Vec<usize>> {
    let keys = rows.iter().filter(|row| row.claim.is_some()).count();
    let mut first_of: HashMap<&str, usize> = HashMap::with_capacity(keys);
    let mut firsts = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let first = row.claim.as_ref().map_or(index, |claim| *first_of.entry(&claim.key).or_insert(index));
        if first != index && !surely_claims(&rows[first]) {
            return None;
        }
        firsts.push(first);
    }
    Some(firsts)
}

/// Leaves the first rows only. Returns for each row that was there the place of its first one.
fn leave_out(rows: &mut Vec<NewRow>, firsts: &[usize]) -> Vec<usize> {
    let mut places = Vec::with_capacity(firsts.len());
    let mut place = 0;
    for (index, first) in firsts.iter().enumerate() {
        places.push(place);
        place += usize::from(*first == index);
    }
    if place < rows.len() {
        let mut is_first = firsts.iter().enumerate().map(|(index, first)| *first == index);
        rows.retain(|_| is_first.next().unwrap_or_default());
    }
    firsts.iter().map(|first| places[*first]).collect()
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

/// The edges of the jobs of a call, in their order.
pub(super) fn edges(jobs: &[NewJob]) -> Result<Vec<Edge>> {
    if jobs.iter().all(|job| job.parents.is_empty()) {
        return Ok(Vec::new());
    }
    let mut places = HashMap::new();
    for (place, job) in jobs.iter().enumerate() {
        if let Some(mark) = job.mark.get()
            && places.insert(mark, place).is_some()
        {
            return Err(refused("must name a job that is in the call once", format!("job {place} is a clone")));
        }
    }
    let mut edges = Vec::new();
    for (child, job) in jobs.iter().enumerate() {
        for (parent, condition) in &job.parents {
            let parent = match parent {
                Parent::Stored(id) => EdgeParent::Stored(*id),
                Parent::OfCall(mark) => match places.get(mark) {
                    Some(place) if *place < child => EdgeParent::OfBatch(*place),
                    Some(place) => {
                        let given = format!("job {child} is after job {place}");
                        return Err(refused("must name an earlier job of the call", given));
                    }
                    None => {
                        let given = format!("a parent of job {child} ({:?}) is not in it", job.kind());
                        return Err(refused(
                            "must name a job of the same call, or the id of one that is inserted",
                            given,
                        ));
                    }
                },
            };
            edges.push(Edge { child, parent, condition: *condition });
        }
    }
    Ok(edges)
}

const fn refused(problem: &'static str, given: String) -> Error {
    Error::InvalidOption { option: "after", problem, given }
}

/// The edges of the rows that are sent, after inputs were folded onto leaders. An input that is a duplicate of an earlier
/// input has no parents of its own.
pub(super) fn of_leaders(edges: Vec<Edge>, leaders: &[usize]) -> Vec<Edge> {
    let mut first_of = HashMap::new();
    for (input, leader) in leaders.iter().enumerate() {
        first_of.entry(*leader).or_insert(input);
    }
    let is_sent = |input: usize| first_of.get(&leaders[input]) == Some(&input);
    let sent = edges.into_iter().filter(|edge| is_sent(edge.child));
    let moved = sent.map(|Edge { child, parent, condition }| Edge {
        child: leaders[child],
        parent: match parent {
            EdgeParent::OfBatch(place) => EdgeParent::OfBatch(leaders[place]),
            stored @ EdgeParent::Stored(_) => stored,
        },
        condition,
    });
    moved.collect()
}
