//! Inserts in callers' transactions, and the ends of these.

use crate::setting::{Answer, Mutation, Setting};
use crate::world::{Job, Phase, Transaction, World, bit};

/// Inserts a job, or meets its holder. `false`: not possible, or not yet.
pub(crate) fn insert(setting: &Setting, world: &mut World, number: u8, key: u8, answer: Answer) -> bool {
    let place = usize::from(number);
    // A transaction inserts once, so the order of open transactions does not matter: the first that is free begins.
    if world.transactions.iter().position(|transaction| !transaction.is_open) != Some(place) {
        return false;
    }
    let checks_only = setting.breaks(Mutation::CheckThenInsert);
    if world.transactions.iter().any(|open| open.key == Some(key)) && !checks_only {
        return false;
    }
    let is_locked_by_writer = |id: u8| world.transactions.iter().any(|open| open.written() & bit(id) != 0);
    let holder = world.holder(setting, key);
    let mut transaction = Transaction { is_open: true, changed: Some(key), ..Transaction::default() };
    let mut newcomer = holder.is_none();
    let mut has_yielded = false;
    if let Some(id) = holder
        && let Some(job) = world.committed(id)
    {
        if job.is_expired && !setting.breaks(Mutation::ExpiredClaimKeepsOut) {
            if world.is_locked(id) {
                return false;
            }
            transaction.releases = bit(id);
            newcomer = true;
        } else {
            match answer {
                Answer::RunAgain if setting.breaks(Mutation::RunAgainIgnores) => {}
                Answer::Ignore | Answer::Reject => transaction.changed = None,
                Answer::Update if !job.phase.is_waiting() && !setting.breaks(Mutation::UpdateOfARun) => {
                    transaction.changed = None;
                }
                Answer::Update if world.is_locked(id) => return false,
                Answer::Update => transaction.updates = bit(id),
                Answer::RunAgain if !job.phase.is_waiting() => transaction.changed = None,
                Answer::RunAgain if is_locked_by_writer(id) => return false,
                Answer::RunAgain => transaction.shared = bit(id),
                Answer::RunAgainAside if job.phase == Phase::Available && world.is_locked(id) => {
                    (newcomer, has_yielded) = (true, true);
                }
                Answer::RunAgainAside => return false,
                Answer::Replace if job.phase == Phase::Running => transaction.changed = None,
                Answer::Replace | Answer::Preempt => {
                    if world.is_locked(id) {
                        return false;
                    }
                    newcomer = true;
                    if job.phase.is_final() {
                        transaction.releases = bit(id);
                    } else {
                        transaction.replaces = bit(id);
                    }
                }
            }
        }
    } else if answer == Answer::RunAgainAside {
        return false;
    }
    if setting.breaks(Mutation::ReplaceBeforeCommit) {
        cancel_replaced(world, &transaction);
    }
    if newcomer {
        if world.jobs.len() >= setting.jobs.into() {
            return false;
        }
        if !has_yielded {
            transaction.key = Some(key);
        }
        world.jobs.push(Some(Job {
            key,
            phase: Phase::Scheduled,
            has_yielded,
            is_released: false,
            is_expired: false,
            run: 0,
            runner: 0,
            began: false,
            began_before: false,
            has_worked: false,
            is_retried: false,
            inserted_by: Some(number),
        }));
    }
    world.transactions[place] = transaction;
    true
}

/// Commits: what the transaction did is seen by all.
pub(crate) fn commit(world: &mut World, number: u8) -> bool {
    let Some(transaction) = end(world, number) else { return false };
    cancel_replaced(world, &transaction);
    for (id, job) in (0..).zip(&mut world.jobs) {
        let Some(job) = job else { continue };
        if transaction.releases & bit(id) != 0 {
            job.is_released = true;
        }
        if job.inserted_by == Some(number) {
            job.inserted_by = None;
        }
    }
    if let Some(key) = transaction.changed {
        world.unworked[usize::from(key)] = true;
    }
    true
}

/// Rolls back: nothing of the transaction was ever there.
pub(crate) fn roll_back(world: &mut World, number: u8) -> bool {
    let Some(transaction) = end(world, number) else { return false };
    for (id, job) in (0..).zip(&mut world.jobs) {
        if job.as_ref().is_some_and(|job| job.inserted_by == Some(number)) {
            *job = None;
        }
        let is_replaced = transaction.replaces & bit(id) != 0;
        world.has_lost |= is_replaced && job.as_ref().is_some_and(|job| job.phase == Phase::Cancelled);
    }
    while let Some(None) = world.jobs.last() {
        world.jobs.pop();
    }
    true
}

fn end(world: &mut World, number: u8) -> Option<Transaction> {
    let open = world.transactions.get_mut(usize::from(number)).filter(|open| open.is_open)?;
    Some(std::mem::take(open))
}

/// Cancels the jobs that a transaction replaces.
fn cancel_replaced(world: &mut World, transaction: &Transaction) {
    for (id, job) in (0..).zip(&mut world.jobs) {
        if let Some(job) = job
            && transaction.replaces & bit(id) != 0
        {
            job.phase = Phase::Cancelled;
        }
    }
}
