//! Suspects: jobs whose runner died while it had them. One of them may be the reason, and would kill this process too.
//!
//! ```text
//!  crashes   fetched                                                  another crash
//!     0      with others, and ahead of free slots                     1: a suspect, no attempt used up
//!     1      when a slot is free: one, then two, four, … as they      2: an attempt used up
//!            pass their trials
//!    2 …     alone: the runner has no other job and fetches none      discarded if it was alone, from the limit on:
//!                                                                     by default 3
//! ```
//!
//! A suspect passes its trial when it ends, however it ends, or when it has run for [`TRIAL`]. While any is on trial the
//! runner fetches nothing ahead, so that a crash takes few neighbours with it.
//!
//! A job that crashed twice is run alone, so that its third crash is its own. The runner fetches no more until the jobs
//! that run have ended and their results are recorded, or for [`DRAIN`]. After [`TRIAL`] others run beside the job again,
//! for as long at least, so that suspects that run for long cannot stop the runner.
//!
//! A job that kills its process later than that, or beside a job that ran on, was not alone. It is not discarded, since any
//! of the others may have done it. Both times grow fourfold with each further crash, up to [`MAX_TRIAL`] and [`MAX_DRAIN`].
//! So the crash of a job that kills within that time is its own sooner or later. Beside jobs that run for longer it is never
//! alone: there the sixth crash discards the job that was started last, half a minute or more after all others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::{RunResult, Verdict};
use crate::words::ident::JobId;
use crate::words::job::JobRow;

/// A suspect that has run for this long has passed its trial, up to its second crash.
const TRIAL: Duration = Duration::from_secs(10);

/// The longest trial. An innocent job that runs for long holds up its runner for as long.
const MAX_TRIAL: Duration = Duration::from_secs(40);

/// How long a suspect that is to run alone waits for the jobs that run, after its second crash.
const DRAIN: Duration = Duration::from_secs(2);

/// The longest such wait. Longer than the half minute after which the statement that rescues jobs blames the job that was
/// started last.
const MAX_DRAIN: Duration = Duration::from_secs(32);

/// How long no suspect is fetched to run alone after none was found: another runner had it, or it is locked.
const PAUSE: Duration = Duration::from_secs(1);

/// The pause doubles up to this, so that a suspect that is locked for long does not stop the others again and again.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The jobs that the runner may fetch now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Plan {
    /// Other jobs, and suspects up to this number.
    Open { suspects: usize, ahead: bool },
    /// One suspect, to run alone.
    Alone,
    /// Nothing until then, since a suspect runs alone or is about to.
    Hold { until: Instant },
}

/// The suspects of a runner.
pub(super) struct Suspects {
    state: Mutex<State>,
    /// How many the runner has, for jobs that end while it has none.
    in_hand: AtomicUsize,
}

struct State {
    /// How many suspects may be on trial at once.
    window: usize,
    on_trial: Vec<Suspect>,
    alone: LoneSuspect,
    /// No suspect is to run alone before this.
    rest_until: Instant,
    /// The next pause.
    pause: Duration,
    /// Suspects that passed the trial and still run.
    passed: Vec<Suspect>,
}

#[derive(Clone, Copy)]
struct Suspect {
    id: JobId,
    run: u32,
    since: Instant,
    /// How long its trial lasts.
    trial: Duration,
}

impl Suspect {
    fn has_passed(&self, now: Instant) -> bool {
        self.since + self.trial <= now
    }

    fn is(&self, result: &RunResult) -> bool {
        (self.id, self.run) == (result.id, result.run)
    }
}

enum LoneSuspect {
    No,
    /// Waits for the jobs that run.
    Wanted {
        until: Instant,
    },
    Running(Suspect),
}

impl Suspects {
    pub(super) fn new(now: Instant) -> Self {
        let state = State {
            window: 1,
            on_trial: Vec::new(),
            alone: LoneSuspect::No,
            rest_until: now,
            pause: PAUSE,
            passed: Vec::new(),
        };
        Self { state: Mutex::new(state), in_hand: AtomicUsize::new(0) }
    }

    /// The jobs to fetch, where this number of jobs is in hand. A job whose result is not recorded is one of them: the
    /// database counts it as running beside the suspect.
    pub(super) fn plan(&self, now: Instant, jobs: usize) -> Plan {
        self.state().plan(now, jobs)
    }

    /// Notes a suspect that was fetched, before it starts.
    pub(super) fn take(&self, row: &JobRow, now: Instant) {
        let trial = grown(TRIAL, row.crashes, MAX_TRIAL);
        let suspect = Suspect { id: row.id, run: row.run, since: now, trial };
        let mut state = self.state();
        if row.crashes > 1 {
            state.alone = LoneSuspect::Running(suspect);
            state.pause = PAUSE;
        } else {
            state.on_trial.push(suspect);
        }
        self.in_hand.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the end of a run. Answers whether it was a suspect's.
    pub(super) fn ended(&self, result: &RunResult) -> bool {
        if self.in_hand.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let is_suspect = self.state().ended(result, Instant::now());
        if is_suspect {
            self.in_hand.fetch_sub(1, Ordering::Relaxed);
        }
        is_suspect
    }

    /// A fetch found suspects that are to run alone, and no others. The next one crashed so often.
    pub(super) fn want_alone(&self, crashes: u16, now: Instant) {
        let mut state = self.state();
        if matches!(state.alone, LoneSuspect::No) && state.on_trial.is_empty() && state.rest_until <= now {
            state.alone = LoneSuspect::Wanted { until: now + grown(DRAIN, crashes, MAX_DRAIN) };
        }
    }

    /// A fetch of a suspect to run alone found none.
    pub(super) fn found_none(&self, now: Instant) {
        let mut state = self.state();
        if matches!(state.alone, LoneSuspect::Wanted { .. }) {
            state.alone = LoneSuspect::No;
            state.rest_until = now + state.pause;
            state.pause = (state.pause * 2).min(MAX_PAUSE);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A time that grows fourfold with each crash after the second.
fn grown(time: Duration, crashes: u16, longest: Duration) -> Duration {
    time.saturating_mul(4_u32.saturating_pow(u32::from(crashes.saturating_sub(2)))).min(longest)
}

impl State {
    fn plan(&mut self, now: Instant, jobs: usize) -> Plan {
        if let LoneSuspect::Running(suspect) = self.alone
            && suspect.has_passed(now)
        {
            // It goes on beside others. Another suspect may run alone after a rest.
            self.passed.push(suspect);
            self.alone = LoneSuspect::No;
            self.rest_until = now + suspect.trial;
        }
        let suspects = match self.alone {
            LoneSuspect::Wanted { until } if jobs == 0 || until <= now => return Plan::Alone,
            LoneSuspect::Wanted { until } => return Plan::Hold { until },
            LoneSuspect::Running(Suspect { since, trial, .. }) => return Plan::Hold { until: since + trial },
            LoneSuspect::No => {
                let before = self.on_trial.len();
                let (passed, on_trial) = self.on_trial.drain(..).partition(|suspect| suspect.has_passed(now));
                self.on_trial = on_trial;
                self.passed.extend::<Vec<_>>(passed);
                self.widen(before - self.on_trial.len());
                self.window.saturating_sub(self.on_trial.len())
            }
        };
        let ahead = self.on_trial.is_empty();
        Plan::Open { suspects, ahead }
    }

    fn ended(&mut self, result: &RunResult, now: Instant) -> bool {
        let has_run = !matches!(result.verdict, Verdict::GiveBack { has_started: false });
        if let Some(place) = self.on_trial.iter().position(|suspect| suspect.is(result)) {
            self.on_trial.swap_remove(place);
            self.widen(usize::from(has_run));
            return true;
        }
        if let LoneSuspect::Running(suspect) = self.alone
            && suspect.is(result)
        {
            self.alone = LoneSuspect::No;
            self.rest_until = now + now.saturating_duration_since(suspect.since).min(suspect.trial);
            return true;
        }
        if let Some(place) = self.passed.iter().position(|suspect| suspect.is(result)) {
            self.passed.swap_remove(place);
            return true;
        }
        false
    }

    /// Each suspect that passes makes room for two.
    fn widen(&mut self, passed: usize) {
        self.window = self.window.saturating_add(passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Plan = Plan::Open { suspects: 1, ahead: true };

    fn suspect(run: u32, since: Instant) -> Suspect {
        Suspect { id: JobId::generate(), run, since, trial: TRIAL }
    }

    fn end(suspect: Suspect, verdict: Verdict) -> RunResult {
        RunResult { id: suspect.id, attempt: 1, run: suspect.run, verdict, progress: None, is_deleted: false }
    }

    fn state(suspects: &Suspects) -> MutexGuard<'_, State> {
        suspects.state()
    }

    #[test]
    fn suspects_come_one_by_one_then_twice_as_many_as_they_end() {
        let now = Instant::now();
        let suspects = Suspects::new(now);
        assert_eq!(suspects.plan(now, 0), OPEN);
        for window in [1, 2, 4, 8] {
            let taken: Vec<_> = (0..window).map(|run| suspect(run, now)).collect();
            state(&suspects).on_trial.extend(&taken);
            assert_eq!(suspects.plan(now, 9), Plan::Open { suspects: 0, ahead: false });
            for suspect in taken {
                assert!(state(&suspects).ended(&end(suspect, Verdict::Complete { output: None }), now));
            }
            assert_eq!(suspects.plan(now, 9), Plan::Open { suspects: 2 * window as usize, ahead: true });
        }
    }

    #[test]
    fn a_suspect_that_is_given_back_has_passed_no_trial() {
        let now = Instant::now();
        let suspects = Suspects::new(now);
        let taken = suspect(1, now);
        state(&suspects).on_trial.push(taken);
        assert!(state(&suspects).ended(&end(taken, Verdict::GiveBack { has_started: false }), now));
        assert_eq!(suspects.plan(now, 0), OPEN);
    }

    #[test]
    fn a_suspect_that_runs_for_long_does_not_keep_others_waiting() {
        let now = Instant::now();
        let suspects = Suspects::new(now);
        let taken = suspect(1, now);
        state(&suspects).on_trial.push(taken);
        assert_eq!(suspects.plan(now + TRIAL, 1), Plan::Open { suspects: 2, ahead: true });
        assert!(state(&suspects).ended(&end(taken, Verdict::Complete { output: None }), now));
    }

    #[test]
    fn a_suspect_that_is_to_run_alone_waits_for_the_jobs_that_run_but_not_for_long() {
        let now = Instant::now();
        let suspects = Suspects::new(now);
        suspects.want_alone(2, now);
        assert_eq!(suspects.plan(now, 1), Plan::Hold { until: now + DRAIN });
        assert_eq!(suspects.plan(now, 0), Plan::Alone);
        assert_eq!(suspects.plan(now + DRAIN, 1), Plan::Alone);
        suspects.found_none(now);
        suspects.want_alone(2, now);
        assert_eq!(suspects.plan(now, 0), OPEN, "another runner had it");
        suspects.want_alone(2, now + PAUSE);
        assert_eq!(suspects.plan(now + PAUSE, 0), Plan::Alone);
        // It is locked for long.
        suspects.found_none(now + PAUSE);
        suspects.want_alone(2, now + 2 * PAUSE);
        assert_eq!(suspects.plan(now + 2 * PAUSE, 0), OPEN, "the pauses grow");
    }

    #[test]
    fn others_work_again_after_a_suspect_that_ran_alone() {
        let now = Instant::now();
        let suspects = Suspects::new(now);
        let taken = suspect(1, now);
        state(&suspects).alone = LoneSuspect::Running(taken);
        assert_eq!(suspects.plan(now, 1), Plan::Hold { until: now + TRIAL });
        let ended_at = now + TRIAL / 2;
        assert!(state(&suspects).ended(&end(taken, Verdict::Complete { output: None }), ended_at));
        suspects.want_alone(2, ended_at);
        assert_eq!(suspects.plan(ended_at, 0), OPEN, "others have their turn");
        suspects.want_alone(2, ended_at + TRIAL / 2);
        assert_eq!(suspects.plan(ended_at + TRIAL / 2, 0), Plan::Alone);
    }

    #[test]
    fn a_suspect_that_runs_alone_for_long_holds_up_no_other_suspect() {
        let now = Instant::now();
        let suspects = Suspects::new(now);
        let taken = suspect(1, now);
        state(&suspects).alone = LoneSuspect::Running(taken);
        let passed_at = now + TRIAL;
        assert_eq!(suspects.plan(passed_at, 1), OPEN);
        suspects.want_alone(2, passed_at + TRIAL / 2);
        assert_eq!(suspects.plan(passed_at + TRIAL / 2, 1), OPEN, "others have their turn");
        suspects.want_alone(2, passed_at + TRIAL);
        assert_eq!(suspects.plan(passed_at + TRIAL + DRAIN, 1), Plan::Alone);
        assert!(state(&suspects).ended(&end(taken, Verdict::Complete { output: None }), passed_at + TRIAL + DRAIN));
    }

    #[test]
    fn each_further_crash_makes_the_wait_and_the_trial_longer() {
        let now = Instant::now();
        for (crashes, drain, trial) in [(1, 2, 10), (2, 2, 10), (3, 8, 40), (4, 32, 40), (32_767, 32, 40)] {
            assert_eq!(grown(DRAIN, crashes, MAX_DRAIN), Duration::from_secs(drain), "{crashes}");
            assert_eq!(grown(TRIAL, crashes, MAX_TRIAL), Duration::from_secs(trial), "{crashes}");
        }
        let suspects = Suspects::new(now);
        suspects.want_alone(3, now);
        assert_eq!(suspects.plan(now, 1), Plan::Hold { until: now + 4 * DRAIN });
        let taken = Suspect { trial: 4 * TRIAL, ..suspect(1, now) };
        state(&suspects).alone = LoneSuspect::Running(taken);
        assert_eq!(suspects.plan(now + TRIAL, 1), Plan::Hold { until: now + 4 * TRIAL });
        assert_eq!(suspects.plan(now + 4 * TRIAL, 1), OPEN);
    }
}
