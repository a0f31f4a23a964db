//! The rules of jobs that run after others, as properties of every state.

use stateright::{Model, Property};

use super::action::GraphAction;
use super::setting::GraphSetting;
use super::world::{Child, Graph, Step};

/// A child is released at most once.
pub const ONCE: &str = "R20: a child is released at most once";
/// A child is released or cancelled only as its parents' ends say.
pub const AS_PARENTS_SAY: &str = "R20: a child runs only when its parents allow it";
/// A child whose parents have all ended does not wait for ever.
pub const NONE_STUCK: &str = "R20: no child is stuck whose parents have ended";
/// An outcome that was noted is how the parent ended.
pub const TRUE_OUTCOME: &str = "R20: a noted outcome is how the parent ended";

pub(super) fn all() -> Vec<Property<GraphSetting>> {
    vec![
        Property::always(ONCE, |_, graph: &Graph| !matches!(graph.child, Child::Released(2..))),
        Property::always(AS_PARENTS_SAY, |_, graph: &Graph| !graph.is_wrong),
        Property::always(NONE_STUCK, none_stuck),
        Property::always(TRUE_OUTCOME, true_outcome),
    ]
}

/// If only releasers can act, at least one releaser can act.
fn none_stuck(setting: &GraphSetting, graph: &Graph) -> bool {
    let has_ended = graph.parents.iter().all(|parent| parent.ended.is_some());
    let is_idle = graph.steps.iter().all(|step| *step == Step::Idle);
    if graph.child != Child::Pending || !has_ended || !is_idle {
        return true;
    }
    let can = |action| setting.next_state(graph, action).is_some();
    can(GraphAction::Next(0)) || (0..setting.parents).any(|parent| can(GraphAction::Link(0, parent)))
}

/// The rule holds for parents that were not retried.
fn true_outcome(_: &GraphSetting, graph: &Graph) -> bool {
    graph
        .parents
        .iter()
        .zip(&graph.edges)
        .all(|(parent, edge)| parent.is_retried || edge.outcome.is_none() || edge.outcome == parent.ended)
}
