//! The statements of a releaser.

use super::setting::{GraphMutation, GraphSetting};
use super::world::{Child, Graph, Step};

/// Marks the parent of a new edge, in a transaction of one statement. A parent that is gone counts as completed.
pub(super) fn link(setting: &GraphSetting, graph: &mut Graph, releaser: u8, parent: u8) -> bool {
    let place = usize::from(parent);
    let is_new = graph.child != Child::Uncommitted && !graph.edges[place].is_linked;
    if graph.steps[usize::from(releaser)] != Step::Idle || !is_new || graph.parents[place].locked_by.is_some() {
        return false;
    }
    if graph.parents[place].is_there {
        graph.parents[place].awaited = Some(true);
        graph.edges[place].is_linked = true;
        return true;
    }
    if graph.child == Child::Pending && graph.child_locked_by.is_some() {
        return false;
    }
    graph.edges[place].is_linked = true;
    if setting.mutation == Some(GraphMutation::GoneIsForgotten) {
        return true;
    }
    graph.edges[place].outcome = Some(true);
    if graph.child == Child::Pending
        && let Some(child) = Graph::verdict(setting, &graph.outcomes())
    {
        settle(setting, graph, child);
    }
    true
}

/// The next statement of a step.
pub(super) fn next(setting: &GraphSetting, graph: &mut Graph, releaser: u8) -> bool {
    let place = usize::from(releaser);
    let next = match std::mem::take(&mut graph.steps[place]) {
        Step::Idle => lock_parents(graph, releaser),
        Step::Parents(ended, seen) => Some(lock_child(setting, graph, releaser, ended, seen)),
        Step::Locked(ended, seen, has_child) => Some(Step::Told(ended, seen, has_child)),
        Step::Told(ended, seen, has_child) => Some(decide(setting, graph, ended, seen, has_child)),
        Step::Decided(ended, has_child, child) => Some(commit(setting, graph, releaser, &ended, has_child, child)),
    };
    let is_possible = next.is_some();
    graph.steps[place] = next.unwrap_or_default();
    is_possible
}

/// A releaser dies.
pub(super) fn crash(graph: &mut Graph, releaser: u8) -> bool {
    let is_open = graph.steps[usize::from(releaser)] != Step::Idle;
    unlock(graph, releaser);
    graph.steps[usize::from(releaser)] = Step::Idle;
    is_open
}

/// Marked final parents that no other releaser has locked.
fn lock_parents(graph: &mut Graph, releaser: u8) -> Option<Step> {
    let mut ended = Vec::new();
    for (number, parent) in (0..).zip(&mut graph.parents) {
        if let (Some(end), true, Some(true), None) = (parent.ended, parent.is_there, parent.awaited, parent.locked_by)
            && graph.child != Child::Uncommitted
        {
            parent.locked_by = Some(releaser);
            ended.push((number, end));
        }
    }
    (!ended.is_empty()).then(|| Step::Parents(ended, graph.outcomes()))
}

fn lock_child(
    setting: &GraphSetting,
    graph: &mut Graph,
    releaser: u8,
    ended: Vec<(u8, bool)>,
    seen: Vec<Option<bool>>,
) -> Step {
    if let Some(GraphMutation::NoLock | GraphMutation::NoLockNoLook) = setting.mutation {
        return Step::Locked(ended, seen, graph.child == Child::Pending);
    }
    let is_free = graph.child == Child::Pending && graph.child_locked_by.is_none();
    if is_free {
        graph.child_locked_by = Some(releaser);
    }
    Step::Locked(ended, seen, is_free)
}

/// Reads which edges are open: from the committed rows, and from the outcomes that this transaction noted.
fn decide(
    setting: &GraphSetting,
    graph: &Graph,
    ended: Vec<(u8, bool)>,
    seen: Vec<Option<bool>>,
    has_child: bool,
) -> Step {
    let mut outcomes = match setting.mutation {
        Some(GraphMutation::AskBeforeLock) => seen,
        _ => graph.outcomes(),
    };
    let is_busy = graph.child == Child::Pending && !has_child;
    // The edges of a waiting child that another releaser has locked stay as they are.
    let noted = if is_busy { Vec::new() } else { ended };
    for (number, end) in &noted {
        outcomes[usize::from(*number)].get_or_insert(*end);
    }
    let child = if has_child { Graph::verdict(setting, &outcomes) } else { None };
    Step::Decided(noted, has_child, child)
}

fn commit(
    setting: &GraphSetting,
    graph: &mut Graph,
    releaser: u8,
    ended: &[(u8, bool)],
    has_child: bool,
    child: Option<Child>,
) -> Step {
    for (number, end) in ended {
        let end = *end || setting.mutation == Some(GraphMutation::FailedCountsAsCompleted);
        graph.edges[usize::from(*number)].outcome.get_or_insert(end);
    }
    if let (true, Some(child)) = (has_child, child) {
        settle(setting, graph, child);
    }
    for (parent, edge) in graph.parents.iter_mut().zip(&graph.edges) {
        let is_told = edge.outcome.is_some() || setting.mutation == Some(GraphMutation::MarkTakenTooEarly);
        if parent.locked_by == Some(releaser) && is_told {
            parent.awaited = Some(false);
        }
    }
    unlock(graph, releaser);
    Step::Idle
}

/// Releases or cancels the child.
fn settle(setting: &GraphSetting, graph: &mut Graph, child: Child) {
    let is_allowed = Graph::verdict(setting, &graph.outcomes()) == Some(child);
    graph.child = match (graph.child, child) {
        (Child::Pending, child) => {
            graph.is_wrong |= !is_allowed;
            child
        }
        (Child::Released(times), Child::Released(_)) if setting.mutation == Some(GraphMutation::NoLockNoLook) => {
            Child::Released(times + 1)
        }
        (other, _) => other,
    };
}

fn unlock(graph: &mut Graph, releaser: u8) {
    for parent in graph.parents.iter_mut().filter(|parent| parent.locked_by == Some(releaser)) {
        parent.locked_by = None;
    }
    if graph.child_locked_by == Some(releaser) {
        graph.child_locked_by = None;
    }
}
