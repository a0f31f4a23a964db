//! Which places a process works, where there are many of both.
//!
//! A runner takes some connections in its place. With many places and many processes, a runner of each process in each place
//! would be more connections than a server has. Then a few processes work each place: those that come first by rendezvous
//! hashing. A process that ends moves only its own places, and one that begins takes only a few.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::words::ident::PlaceName;

/// The least number of processes that work a place, so that the death of one leaves another.
const LEAST: usize = 2;

/// Whether the process works each place, given all live processes and the number of runners that all of them may start.
pub(super) fn assigned<'a>(
    places: impl Iterator<Item = &'a PlaceName>,
    processes: &BTreeSet<String>,
    own: &str,
    most: usize,
) -> Vec<bool> {
    let places: Vec<_> = places.collect();
    let others = || processes.iter().filter(|process| *process != own);
    if places.len() * (others().count() + 1) <= most {
        return vec![true; places.len()];
    }
    let each = (most / places.len()).max(LEAST);
    let is_own = |place: &&PlaceName| {
        let weight = weight(place, own);
        others().filter(|other| self::weight(place, other) > weight).count() < each
    };
    places.iter().map(is_own).collect()
}

fn weight(place: &PlaceName, process: &str) -> [u8; 32] {
    Sha256::new().chain_update(place.as_str()).chain_update([0]).chain_update(process).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str, count: usize) -> Vec<String> {
        (0..count).map(|n| format!("{prefix}{n}")).collect()
    }

    /// How many processes work each place.
    fn workers(places: &[PlaceName], processes: &BTreeSet<String>, most: usize) -> Vec<BTreeSet<String>> {
        let mut workers = vec![BTreeSet::new(); places.len()];
        for process in processes {
            for (place, is_own) in assigned(places.iter(), processes, process, most).into_iter().enumerate() {
                if is_own {
                    workers[place].insert(process.clone());
                }
            }
        }
        workers
    }

    #[test]
    fn few_places_are_worked_by_every_process() {
        let places: Vec<_> = names("p", 8).iter().map(|name| PlaceName::new(name).unwrap()).collect();
        let processes: BTreeSet<_> = names("r", 4).into_iter().collect();
        assert!(workers(&places, &processes, 300).iter().all(|workers| workers.len() == 4));
    }

    #[test]
    fn of_many_each_place_has_its_few_and_a_death_moves_only_its_own() {
        let places: Vec<_> = names("p", 100).iter().map(|name| PlaceName::new(name).unwrap()).collect();
        let mut processes: BTreeSet<_> = names("r", 50).into_iter().collect();
        let before = workers(&places, &processes, 300);
        assert!(before.iter().all(|workers| workers.len() == 3));
        processes.remove("r7");
        for (before, after) in before.iter().zip(workers(&places, &processes, 300)) {
            assert_eq!(after.len(), 3);
            let gone = usize::from(before.contains("r7"));
            assert_eq!(after.difference(before).count(), gone);
        }
        // However few runners are allowed, two work each place.
        assert!(workers(&places, &processes, 1).iter().all(|workers| workers.len() == 2));
    }
}
