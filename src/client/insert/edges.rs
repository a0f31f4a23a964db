//! The edges of a call: from each child to its parents.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::store::{Edge, EdgeParent};
use crate::words::after::Parent;
use crate::words::job::NewJob;

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
