//! Changes by time and by hand.

use crate::setting::Setting;
use crate::world::{Phase, World};

/// A job that waits for its time is due. `false`: not possible, or not yet.
pub(crate) fn promote(setting: &Setting, world: &mut World, id: u8) -> bool {
    let waits = |phase| matches!(phase, Phase::Scheduled | Phase::Retryable);
    if !world.committed(id).is_some_and(|job| waits(job.phase)) || world.is_locked(id) {
        return false;
    }
    world.change(setting, id, Phase::Available)
}

/// The time of a claim is over. The row is not changed.
pub(crate) fn expire(world: &mut World, id: u8) -> bool {
    world.committed_mut(id).is_some_and(|job| !std::mem::replace(&mut job.is_expired, true))
}

/// An operator cancels a job that is not final.
pub(crate) fn cancel(world: &mut World, id: u8) -> bool {
    if world.is_locked(id) {
        return false;
    }
    let Some(job) = world.committed_mut(id).filter(|job| !job.phase.is_final()) else { return false };
    job.phase = Phase::Cancelled;
    // The operator decided that the changes are not worked.
    let key = usize::from(job.key);
    world.unworked[key] = false;
    true
}

/// An operator makes a final job run again, once.
pub(crate) fn retry(setting: &Setting, world: &mut World, id: u8) -> bool {
    if !world.committed(id).is_some_and(|job| job.phase.is_final() && !job.is_retried) || world.is_locked(id) {
        return false;
    }
    if !world.change(setting, id, Phase::Available) {
        return false;
    }
    if let Some(job) = world.committed_mut(id) {
        (job.is_retried, job.began, job.has_worked) = (true, false, false);
    }
    true
}

/// An operator releases a claim for good.
pub(crate) fn release(world: &mut World, id: u8) -> bool {
    if world.is_locked(id) {
        return false;
    }
    world.committed_mut(id).is_some_and(|job| !std::mem::replace(&mut job.is_released, true))
}
