//! Runs: fetches, results, and crashes.

use crate::setting::{Mutation, Outcome, Setting};
use crate::world::{Job, MAX_IN_HAND, Phase, World};

/// Fetches the first job that may start. `false`: there is none.
pub(crate) fn fetch(setting: &Setting, world: &mut World, runner: u8) -> bool {
    let Some(state) = world.runners.get(usize::from(runner)) else { return false };
    // A runner has one slot. The run of a job that was taken away from it does not occupy it for long.
    let works = |&(id, run): &(u8, u8)| world.committed(id).is_some_and(|job| job.run == run && is_run_by(job, runner));
    if !state.is_alive || state.in_hand.len() >= MAX_IN_HAND.into() || state.in_hand.iter().any(works) {
        return false;
    }
    let Some(id) = next(setting, world, runner) else { return false };
    let key = world.committed(id).map_or(0, |job| job.key);
    world.has_overtaken |= setting.in_order
        && world.all().any(|(other, job)| other != id && job.key == key && job.has_worked && !job.phase.is_final());
    if !world.change(setting, id, Phase::Running) {
        return false;
    }
    let Some(job) = world.committed_mut(id) else { return false };
    job.run += 1;
    job.runner = runner;
    job.began_before = job.began;
    job.began = setting.in_order;
    let run = job.run;
    world.runners[usize::from(runner)].in_hand.push((id, run));
    // The worker reads what is committed now.
    world.unworked[usize::from(key)] = false;
    true
}

/// The first job, in the order of work, that is not locked and whose group lets it start.
fn next(setting: &Setting, world: &World, runner: u8) -> Option<u8> {
    let mut blocked = vec![false; setting.keys.into()];
    for (id, job) in world.all() {
        if job.phase != Phase::Available {
            continue;
        }
        let group = &mut blocked[usize::from(job.key)];
        if *group || job.run >= setting.runs {
            continue;
        }
        // The head of a line is the job that began, whatever comes before it in the order.
        let is_behind = setting.in_order
            && !job.began
            && world.all().any(|(_, other)| other.key == job.key && holds_line(setting, other));
        if is_behind && !setting.breaks(Mutation::HeadByOrderAlone) {
            continue;
        }
        let is_locked = world.is_locked(id) && !setting.breaks(Mutation::FetchIgnoresLocks);
        if !is_locked && may_start(setting, world, id, job, runner) {
            return Some(id);
        }
        // A head that may not start blocks its group. In a group without order a locked job is passed by.
        *group = setting.in_order || !is_locked;
    }
    None
}

/// Whether a job began and is not final, so that it is the head of its line.
fn holds_line(setting: &Setting, job: &Job) -> bool {
    let is_held = !job.phase.is_final() && !setting.breaks(Mutation::RetriesLoseTheHead);
    job.began && (is_held || job.phase == Phase::Running)
}

fn may_start(setting: &Setting, world: &World, id: u8, job: &Job, runner: u8) -> bool {
    let of_group = || world.all().filter(|(other, other_job)| *other != id && other_job.key == job.key);
    let counts_all = !setting.breaks(Mutation::CountOwnJobs);
    let is_running = |other: &Job| other.phase == Phase::Running && (counts_all || other.runner == runner);
    let running = of_group().filter(|(_, other)| is_running(other)).count();
    if running >= setting.limit.map_or(usize::MAX, usize::from) {
        return false;
    }
    !setting.in_order || !of_group().any(|(_, other)| holds_line(setting, other))
}

fn is_run_by(job: &Job, runner: u8) -> bool {
    job.phase == Phase::Running && job.runner == runner
}

/// Records a result. It counts only for the run that made it. `false`: not possible, or not yet.
pub(crate) fn finish(setting: &Setting, world: &mut World, runner: u8, place: u8, outcome: Outcome) -> bool {
    let in_hand = &world.runners[usize::from(runner)].in_hand;
    let Some(&(id, run)) = in_hand.get(usize::from(place)) else { return false };
    if world.is_locked(id) {
        return false;
    }
    world.runners[usize::from(runner)].in_hand.remove(place.into());
    let Some(job) = world.committed(id) else { return true };
    let is_of_run = job.run == run || setting.breaks(Mutation::FenceWithoutRun);
    if !is_run_by(job, runner) || !is_of_run {
        return true;
    }
    world.has_applied_stale |= job.run != run;
    let phase = match outcome {
        Outcome::Complete => Phase::Completed,
        Outcome::Retry => Phase::Retryable,
        Outcome::Snooze => Phase::Scheduled,
        Outcome::Discard => Phase::Discarded,
        Outcome::GiveBack => Phase::Available,
    };
    if !world.change(setting, id, phase) {
        return false;
    }
    let Some(job) = world.committed_mut(id) else { return false };
    if outcome == Outcome::GiveBack {
        job.began = job.began_before && !setting.breaks(Mutation::GivingBackClearsTheMark);
        // The worker did not start, so it did not read the changes that this run was for.
        let key = usize::from(job.key);
        world.unworked[key] = true;
    } else {
        job.has_worked = true;
    }
    true
}

/// The lease of a runner runs out. It keeps what it has in hand, and may still send results.
pub(crate) fn lose_lease(world: &mut World, runner: u8) -> bool {
    let runner = &mut world.runners[usize::from(runner)];
    std::mem::take(&mut runner.is_alive)
}

/// A job of a runner without a lease is tried again. Whether its work began is not known, so it counts as begun.
pub(crate) fn rescue(setting: &Setting, world: &mut World, id: u8) -> bool {
    let Some(job) = world.committed(id) else { return false };
    if job.phase != Phase::Running || world.runners[usize::from(job.runner)].is_alive || world.is_locked(id) {
        return false;
    }
    if !world.change(setting, id, Phase::Retryable) {
        return false;
    }
    if let Some(job) = world.committed_mut(id) {
        job.has_worked = true;
    }
    true
}
