//! Which actions there are, and the state after each.

use stateright::{Model, Property};

use super::action::GraphAction;
use super::setting::GraphSetting;
use super::world::Graph;
use super::{releaser, rules};

impl Model for GraphSetting {
    type State = Graph;
    type Action = GraphAction;

    fn init_states(&self) -> Vec<Graph> {
        vec![Graph::new(self)]
    }

    fn actions(&self, _: &Graph, actions: &mut Vec<GraphAction>) {
        actions.extend([GraphAction::CommitChild, GraphAction::ReleaseByHand]);
        for parent in 0..self.parents {
            actions.extend([true, false].map(|completes| GraphAction::End(parent, completes)));
            actions.push(GraphAction::Retry(parent));
        }
        for releaser in 0..self.releasers {
            actions.extend([GraphAction::Next(releaser), GraphAction::Crash(releaser)]);
            actions.extend((0..self.parents).map(|parent| GraphAction::Link(releaser, parent)));
        }
    }

    fn next_state(&self, graph: &Graph, action: GraphAction) -> Option<Graph> {
        let mut next = graph.clone();
        let is_possible = match action {
            GraphAction::CommitChild => next.commit_child(self),
            GraphAction::End(parent, completes) => next.end(self, parent, completes),
            GraphAction::Retry(parent) => next.retry(parent),
            GraphAction::ReleaseByHand => next.release_by_hand(),
            GraphAction::Link(releaser, parent) => releaser::link(self, &mut next, releaser, parent),
            GraphAction::Next(releaser) => releaser::next(self, &mut next, releaser),
            GraphAction::Crash(releaser) => releaser::crash(&mut next, releaser),
        };
        (is_possible && next != *graph).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rules::all()
    }
}
