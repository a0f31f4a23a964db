//! Checks every state of the model, and that each rule that is broken on purpose is found.
//!
//! With `UNIQUEUE_SOAK`, everything that can happen is checked with three jobs, two keys, two runners and two open
//! transactions, except what an operator does: its acts multiply the states, so that they are checked with two jobs of
//! one key. Updates, crashes and every end of a run are checked with as few. Without it, only the smaller checks run.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};
use uniqueue_model::{Answer, Mutation, Outcome, Scope, Setting, rules};

const ALL_OUTCOMES: [Outcome; 5] =
    [Outcome::Complete, Outcome::Retry, Outcome::Snooze, Outcome::Discard, Outcome::GiveBack];

/// Claims of keys that expire.
fn keys(scope: Scope) -> Setting {
    Setting {
        jobs: 3,
        keys: 2,
        runners: 2,
        transactions: 2,
        runs: 2,
        scope,
        answers: vec![Answer::Ignore, Answer::Reject, Answer::Replace, Answer::Preempt],
        outcomes: vec![Outcome::Complete, Outcome::Retry, Outcome::Discard],
        limit: None,
        in_order: false,
        has_crashes: false,
        has_expiry: true,
        has_operator: false,
        mutation: None,
    }
}

/// Callers that change data and want a run that reads it.
fn run_again() -> Setting {
    Setting {
        scope: Scope::Queued,
        answers: vec![Answer::RunAgain, Answer::RunAgainAside, Answer::Update],
        outcomes: vec![Outcome::Complete, Outcome::Retry, Outcome::GiveBack],
        has_crashes: true,
        has_expiry: false,
        ..keys(Scope::Queued)
    }
}

/// Groups with a limit, and crashes.
fn groups(limit: u8) -> Setting {
    Setting {
        // No claim is in the way of a second job with the same key.
        scope: Scope::Delayed,
        answers: vec![Answer::RunAgainAside, Answer::Ignore],
        outcomes: ALL_OUTCOMES.to_vec(),
        limit: Some(limit),
        has_crashes: true,
        has_expiry: false,
        ..keys(Scope::Delayed)
    }
}

/// Lines in order.
fn lines() -> Setting {
    Setting { in_order: true, ..groups(1) }
}

/// The same with an operator, who cancels, retries and releases jobs of one key.
fn operated(setting: Setting) -> Setting {
    Setting { jobs: 2, keys: 1, has_operator: true, ..setting }
}

/// The same with updates, crashes and every end of a run, but without claims that expire.
fn crashed(setting: Setting) -> Setting {
    let (answers, outcomes) = ([setting.answers, vec![Answer::Update]].concat(), ALL_OUTCOMES.to_vec());
    Setting { jobs: 2, keys: 1, has_crashes: true, has_expiry: false, answers, outcomes, ..setting }
}

/// Checks a setting with an operator, and with `UNIQUEUE_SOAK` also the larger one without.
fn holds(name: &str, setting: Setting) {
    if std::env::var_os("UNIQUEUE_SOAK").is_some() {
        visit(name, setting.clone());
    }
    visit(&format!("{name}, with an operator"), operated(setting));
}

/// Visits every state. Panics with the shortest path to one where a rule does not hold.
fn visit(name: &str, setting: Setting) {
    let began = Instant::now();
    let checker = setting.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states in {:.1?}", checker.unique_state_count(), began.elapsed());
    assert!(checker.unique_state_count() > 1_000, "{name} checks hardly anything");
    checker.assert_properties();
}

/// Expects a path to a state where the rule does not hold.
fn is_found(setting: Setting, mutation: Mutation, rule: &'static str) {
    let broken = Setting { mutation: Some(mutation), ..setting };
    let checker = broken.checker().threads(2).finish_when(HasDiscoveries::AnyOf([rule].into())).spawn_bfs().join();
    let path = checker.discovery(rule);
    assert!(path.is_some(), "{mutation:?} is not found by {rule:?}");
    println!("{mutation:?}: {rule:?} is broken by {:?}", path.map(|path| path.into_actions()));
}

#[test]
fn keys_hold_in_every_state() {
    for scope in [Scope::Queued, Scope::Active, Scope::Completed, Scope::Delayed] {
        holds(&format!("keys, {scope:?}"), keys(scope));
        visit(&format!("keys, {scope:?}, with crashes"), crashed(keys(scope)));
    }
}

#[test]
fn r12_no_change_is_left_unworked_in_any_state() {
    holds("run_again", run_again());
}

#[test]
fn r15_no_limit_is_passed_in_any_state() {
    holds("groups of 1", groups(1));
    holds("groups of 2", groups(2));
}

#[test]
fn r16_no_job_overtakes_in_any_state() {
    holds("lines", lines());
}

#[test]
fn each_rule_that_is_broken_on_purpose_is_found() {
    is_found(keys(Scope::Active), Mutation::CheckThenInsert, rules::ONE_HOLDER);
    is_found(keys(Scope::Delayed), Mutation::ReentryTakesTheKey, rules::ONE_HOLDER);
    is_found(keys(Scope::Active), Mutation::ReplaceBeforeCommit, rules::NOTHING_LOST);
    is_found(keys(Scope::Delayed), Mutation::ReentryFails, rules::NO_TRANSITION_FAILS);
    is_found(keys(Scope::Active), Mutation::ExpiredClaimKeepsOut, rules::EXPIRED_IS_FREE);
    is_found(run_again(), Mutation::RunAgainIgnores, rules::RUN_AGAIN);
    is_found(run_again(), Mutation::FetchIgnoresLocks, rules::RUN_AGAIN);
    let updated = Setting { answers: vec![Answer::Update], ..keys(Scope::Active) };
    is_found(updated, Mutation::UpdateOfARun, rules::RUN_AGAIN);
    is_found(groups(1), Mutation::CountOwnJobs, rules::LIMIT);
    is_found(lines(), Mutation::RetriesLoseTheHead, rules::IN_ORDER);
    is_found(lines(), Mutation::GivingBackClearsTheMark, rules::IN_ORDER);
    is_found(operated(lines()), Mutation::HeadByOrderAlone, rules::NO_LINE_STANDS);
    is_found(operated(keys(Scope::Active)), Mutation::FenceWithoutRun, rules::FENCED);
}
