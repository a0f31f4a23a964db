//! Checks every state of the model of jobs that run after others, and that each rule that is broken on purpose is found.

use stateright::{Checker, HasDiscoveries, Model};
use uniqueue_model::graph::{GraphMutation, GraphSetting, rules};

fn graphs() -> impl Iterator<Item = GraphSetting> {
    [0, 1, 2].into_iter().flat_map(|inserted_together| {
        [true, false].into_iter().flat_map(move |needs_success| {
            [true, false].into_iter().map(move |deletes_completed| GraphSetting {
                parents: 2,
                inserted_together,
                releasers: 2,
                needs_success,
                deletes_completed,
                mutation: None,
            })
        })
    })
}

#[test]
fn r20_holds_in_every_state() {
    for setting in graphs() {
        let checker = setting.clone().checker().threads(2).spawn_bfs().join();
        println!("{setting:?}: {} states", checker.unique_state_count());
        assert!(checker.unique_state_count() > 1_000, "{setting:?} checks hardly anything");
        checker.assert_properties();
    }
}

#[test]
fn each_rule_of_graphs_that_is_broken_on_purpose_is_found() {
    for (mutation, rule) in [
        (GraphMutation::AskBeforeLock, rules::NONE_STUCK),
        (GraphMutation::NoLock, rules::NONE_STUCK),
        (GraphMutation::NeverLinked, rules::NONE_STUCK),
        (GraphMutation::MarkTakenTooEarly, rules::NONE_STUCK),
        (GraphMutation::GoneIsForgotten, rules::NONE_STUCK),
        (GraphMutation::FailedCountsAsCompleted, rules::TRUE_OUTCOME),
        (GraphMutation::NoLockNoLook, rules::ONCE),
    ] {
        let is_found = graphs().any(|setting| {
            let broken = GraphSetting { mutation: Some(mutation), ..setting };
            let checker =
                broken.checker().threads(2).finish_when(HasDiscoveries::AnyOf([rule].into())).spawn_bfs().join();
            checker.discovery(rule).is_some()
        });
        assert!(is_found, "{mutation:?} is not found by {rule:?}");
    }
}
