//! The rules, as properties of every state. Their names begin with the number of the rule.

use stateright::{Model, Property};

use crate::action::Action;
use crate::setting::{Answer, Outcome, Setting};
use crate::world::{Job, Phase, World, bit, is_in_index};

/// At most one job claims a key.
pub const ONE_HOLDER: &str = "R1: at most one job claims a key";
/// A replaced job is cancelled only together with the insert of its successor.
pub const NOTHING_LOST: &str = "R4: no job is cancelled for a successor that was never inserted";
/// No transition fails because of a key.
pub const NO_TRANSITION_FAILS: &str = "R6: no transition fails because of a key";
/// An expired claim keeps no insert out.
pub const EXPIRED_IS_FREE: &str = "R7: an expired claim keeps no insert out";
/// After a commit with `run_again` or `update` a run of the key begins.
pub const RUN_AGAIN: &str = "R12, R13: every committed change waits for a run, or was read by one";
/// No more jobs of a group run than its limit.
pub const LIMIT: &str = "R15: no more jobs of a group run than its limit";
/// No job overtakes the head of its line.
pub const IN_ORDER: &str = "R16: no job of a line starts before the one that began is final";
/// A place that is free is filled.
pub const NO_LINE_STANDS: &str = "R16: a line whose jobs are all due and unlocked does not stand";
/// A result counts only for its own run.
pub const FENCED: &str = "fence: a result counts only for the run that made it";

pub(crate) fn all() -> Vec<Property<Setting>> {
    vec![
        Property::always(ONE_HOLDER, one_holder),
        Property::always(NOTHING_LOST, |_, world: &World| !world.has_lost),
        Property::always(NO_TRANSITION_FAILS, no_transition_fails),
        Property::always(EXPIRED_IS_FREE, expired_is_free),
        Property::always(RUN_AGAIN, run_again),
        Property::always(LIMIT, limit),
        Property::always(IN_ORDER, |_, world: &World| !world.has_overtaken),
        Property::always(NO_LINE_STANDS, no_line_stands),
        Property::always(FENCED, |_, world: &World| !world.has_applied_stale),
    ]
}

/// For everybody who looks: with committed jobs alone, and for each open transaction with what it did itself.
fn one_holder(setting: &Setting, world: &World) -> bool {
    let views = std::iter::once(None).chain((0..setting.transactions).map(Some));
    views.into_iter().all(|viewer| (0..setting.keys).all(|key| holders(setting, world, key, viewer) <= 1))
}

fn holders(setting: &Setting, world: &World, key: u8, viewer: Option<u8>) -> usize {
    let gone = viewer.map_or(0, |viewer| {
        let transaction = &world.transactions[usize::from(viewer)];
        transaction.replaces | transaction.releases
    });
    let is_seen = |job: &Job| job.inserted_by.is_none() || job.inserted_by == viewer;
    let jobs = (0..).zip(&world.jobs).filter_map(|(id, job)| Some((id, job.as_ref()?)));
    let claims =
        |(id, job): &(u8, &Job)| job.key == key && is_seen(job) && gone & bit(*id) == 0 && is_in_index(setting, job);
    jobs.filter(claims).count()
}

/// Promotion, rescue, an operator's retry and every result of a run are possible, whichever job has the key.
fn no_transition_fails(setting: &Setting, world: &World) -> bool {
    let is_possible = |action| setting.next_state(world, action).is_some();
    let jobs_go_on = world.all().filter(|(id, _)| !world.is_locked(*id)).all(|(id, job)| match job.phase {
        Phase::Scheduled | Phase::Retryable => is_possible(Action::Promote(id)),
        Phase::Running if !world.runners[usize::from(job.runner)].is_alive => is_possible(Action::Rescue(id)),
        phase if phase.is_final() && !job.is_retried && setting.has_operator => is_possible(Action::Retry(id)),
        _ => true,
    });
    let results_count = (0..).zip(&world.runners).all(|(runner, state)| {
        (0..).zip(&state.in_hand).filter(|(_, (id, _))| !world.is_locked(*id)).all(|(place, _)| {
            let ends = |outcome: &Outcome| is_possible(Action::Finish(runner, place, *outcome));
            setting.outcomes.iter().all(ends)
        })
    });
    jobs_go_on && results_count
}

/// An insert succeeds where the holder's claim is expired and no open transaction has the holder's row or its key.
fn expired_is_free(setting: &Setting, world: &World) -> bool {
    let Some(free) = (0..).zip(&world.transactions).find(|(_, open)| !open.is_open).map(|(number, _)| number) else {
        return true;
    };
    if world.jobs.len() >= setting.jobs.into() || !setting.answers.contains(&Answer::Ignore) {
        return true;
    }
    (0..setting.keys).all(|key| {
        let Some(id) = world.holder(setting, key) else { return true };
        let is_expired = world.committed(id).is_some_and(|job| job.is_expired);
        if !is_expired || world.is_locked(id) || world.transactions.iter().any(|open| open.key == Some(key)) {
            return true;
        }
        let insert = Action::Insert { transaction: free, key, answer: Answer::Ignore };
        setting.next_state(world, insert).is_some_and(|next| next.jobs.len() > world.jobs.len())
    })
}

/// Where changes of a key are committed and unread, a job of the key waits.
fn run_again(setting: &Setting, world: &World) -> bool {
    if !setting.answers.iter().any(|answer| matches!(answer, Answer::RunAgain | Answer::Update)) {
        return true;
    }
    (0..setting.keys).filter(|key| world.unworked[usize::from(*key)]).all(|key| {
        let waits = |job: &Job| job.key == key && job.phase.is_waiting();
        world.all().any(|(_, job)| waits(job))
    })
}

fn limit(setting: &Setting, world: &World) -> bool {
    let running = |key| world.all().filter(|(_, job)| job.key == key && job.phase == Phase::Running).count();
    setting.limit.is_none_or(|limit| (0..setting.keys).all(|key| running(key) <= usize::from(limit)))
}

/// A runner that lives and has nothing in hand gets a job, if a line has only jobs that are due and unlocked, and none of
/// them runs.
fn no_line_stands(setting: &Setting, world: &World) -> bool {
    if !setting.in_order {
        return true;
    }
    let Some(idle) = (0..).zip(&world.runners).find(|(_, state)| state.is_alive && state.in_hand.is_empty()) else {
        return true;
    };
    (0..setting.keys).all(|key| {
        let mut line = world.all().filter(|(_, job)| job.key == key && !job.phase.is_final()).peekable();
        let is_due =
            |(id, job): (u8, &Job)| job.phase == Phase::Available && job.run < setting.runs && !world.is_locked(id);
        line.peek().is_none() || !line.all(is_due) || setting.next_state(world, Action::Fetch(idle.0)).is_some()
    })
}
