//! One state for all that differ only in the names of keys, transactions and runners.

use crate::setting::Setting;
use crate::world::{Phase, World, bit};

/// Numbers keys, transactions and runners anew, by what they have. States that are the same but for these numbers become
/// equal, and are checked once.
pub(crate) fn canonical(setting: &Setting, mut world: World) -> World {
    for job in world.jobs.iter_mut().flatten().filter(|job| job.phase != Phase::Running) {
        // Only the runner of a run that is not over counts.
        (job.runner, job.began_before) = (0, false);
    }
    for runner in &mut world.runners {
        runner.in_hand.sort_unstable();
    }
    number_keys(&mut world);
    number_transactions(&mut world);
    if !setting.has_crashes {
        // Else only the first may lose its lease.
        number_runners(&mut world);
    }
    world
}

fn number_keys(world: &mut World) {
    let jobs_of = |key| mask(world, |job| job.key == key);
    let order = sorted(world.unworked.len(), |key| (jobs_of(key), world.unworked[usize::from(key)]));
    world.unworked = order.iter().map(|&old| world.unworked[usize::from(old)]).collect();
    for job in world.jobs.iter_mut().flatten() {
        job.key = place(&order, job.key);
    }
    for transaction in &mut world.transactions {
        transaction.key = transaction.key.map(|key| place(&order, key));
        transaction.changed = transaction.changed.map(|key| place(&order, key));
    }
}

fn number_transactions(world: &mut World) {
    let jobs_of = |number| mask(world, |job| job.inserted_by == Some(number));
    let order = sorted(world.transactions.len(), |number| {
        let open = &world.transactions[usize::from(number)];
        // An insert takes the first that is not open, whatever its number.
        (open.is_open, jobs_of(number), open.key, open.changed, open.shared, open.updates, open.replaces, open.releases)
    });
    world.transactions = order.iter().map(|&old| world.transactions[usize::from(old)].clone()).collect();
    for job in world.jobs.iter_mut().flatten() {
        job.inserted_by = job.inserted_by.map(|number| place(&order, number));
    }
}

fn number_runners(world: &mut World) {
    let runs_of = |runner| mask(world, |job| job.phase == Phase::Running && job.runner == runner);
    let order =
        sorted(world.runners.len(), |runner| (runs_of(runner), world.runners[usize::from(runner)].in_hand.clone()));
    world.runners = order.iter().map(|&old| world.runners[usize::from(old)].clone()).collect();
    for job in world.jobs.iter_mut().flatten().filter(|job| job.phase == Phase::Running) {
        job.runner = place(&order, job.runner);
    }
}

/// The jobs of which something is true, as a bit mask.
fn mask(world: &World, is_one: impl Fn(&crate::world::Job) -> bool) -> u8 {
    (0..).zip(&world.jobs).filter(|(_, job)| job.as_ref().is_some_and(&is_one)).map(|(id, _)| bit(id)).sum()
}

/// The numbers below `count`, the highest key first.
fn sorted<K: Ord>(count: usize, key: impl Fn(u8) -> K) -> Vec<u8> {
    let mut order: Vec<u8> = (0..).take(count).collect();
    order.sort_by_key(|number| std::cmp::Reverse(key(*number)));
    order
}

/// The new number of what had this one.
fn place(order: &[u8], old: u8) -> u8 {
    (0..).zip(order).find(|(_, was)| **was == old).map_or(old, |(new, _)| new)
}
