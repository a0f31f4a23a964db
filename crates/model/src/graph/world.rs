//! The state of a graph: rows, and the open transactions of releasers.

use super::setting::{GraphMutation, GraphSetting};

/// A parent's row.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Parent {
    /// How it ended. `None`: it has not.
    pub ended: Option<bool>,
    /// Whether the row is there.
    pub is_there: bool,
    /// The mark. `None`: no job is known to wait for it.
    pub awaited: Option<bool>,
    /// Whether an operator made it run again.
    pub is_retried: bool,
    /// The releaser that has its row.
    pub locked_by: Option<u8>,
}

/// An edge from the child to a parent.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Edge {
    /// Whether the parent completed, once it is noted.
    pub outcome: Option<bool>,
    /// Whether the parent was marked for it.
    pub is_linked: bool,
}

/// The child's row.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Child {
    /// Its transaction is open.
    Uncommitted,
    /// It waits for its parents.
    Pending,
    /// The number of times that the child was released.
    Released(u8),
    /// It was cancelled for a parent that failed.
    Cancelled,
}

/// Where a releaser is in its step.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub enum Step {
    /// No transaction is open.
    #[default]
    Idle,
    /// It has locked final parents: their numbers and ends, and the outcomes as they were then.
    Parents(Vec<(u8, bool)>, Vec<Option<bool>>),
    /// It has locked the child, if it waited and was free.
    Locked(Vec<(u8, bool)>, Vec<Option<bool>>, bool),
    /// It has noted the outcomes in its own transaction, and asks.
    Told(Vec<(u8, bool)>, Vec<Option<bool>>, bool),
    /// It has decided what to do with the child, and commits.
    Decided(Vec<(u8, bool)>, bool, Option<Child>),
}

/// A graph.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Graph {
    /// The parents.
    pub parents: Vec<Parent>,
    /// The edges, one for each parent.
    pub edges: Vec<Edge>,
    /// The child.
    pub child: Child,
    /// The releaser that has the child's row.
    pub child_locked_by: Option<u8>,
    /// Whether the child was released by hand.
    pub is_by_hand: bool,
    /// The releasers.
    pub steps: Vec<Step>,
    /// The child was released or cancelled although its edges say otherwise.
    pub is_wrong: bool,
}

impl Graph {
    pub(super) fn new(setting: &GraphSetting) -> Self {
        let parent = |number| {
            let is_together = number < setting.inserted_together;
            let awaited = is_together.then_some(true);
            Parent { ended: None, is_there: true, awaited, is_retried: false, locked_by: None }
        };
        let edge = |number| Edge { outcome: None, is_linked: number < setting.inserted_together };
        Self {
            parents: (0..setting.parents).map(parent).collect(),
            edges: (0..setting.parents).map(edge).collect(),
            child: Child::Uncommitted,
            child_locked_by: None,
            is_by_hand: false,
            steps: vec![Step::Idle; setting.releasers.into()],
            is_wrong: false,
        }
    }

    pub(super) fn commit_child(&mut self, setting: &GraphSetting) -> bool {
        // Its key-share locks protect parents from deletion, except from a runner that deletes jobs when they complete.
        let is_possible = self.child == Child::Uncommitted;
        self.child = if is_possible { Child::Pending } else { self.child };
        if setting.mutation == Some(GraphMutation::NeverLinked) {
            self.edges.iter_mut().for_each(|edge| edge.is_linked = true);
        }
        is_possible
    }

    /// A parent of the same transaction ends only after its commit.
    pub(super) fn end(&mut self, setting: &GraphSetting, number: u8, completes: bool) -> bool {
        let is_hidden = number < setting.inserted_together && self.child == Child::Uncommitted;
        let parent = &mut self.parents[usize::from(number)];
        if is_hidden || parent.ended.is_some() || parent.locked_by.is_some() {
            return false;
        }
        parent.ended = Some(completes);
        if completes && setting.deletes_completed && parent.awaited.is_none() {
            parent.is_there = false;
        }
        true
    }

    pub(super) fn retry(&mut self, number: u8) -> bool {
        let parent = &mut self.parents[usize::from(number)];
        if parent.ended.is_none() || parent.is_retried || !parent.is_there || parent.locked_by.is_some() {
            return false;
        }
        (parent.ended, parent.is_retried) = (None, true);
        true
    }

    pub(super) fn release_by_hand(&mut self) -> bool {
        if self.child != Child::Pending || self.child_locked_by.is_some() {
            return false;
        }
        self.child = Child::Released(1);
        self.is_by_hand = true;
        true
    }

    /// What the noted outcomes make of the child.
    pub(super) fn verdict(setting: &GraphSetting, outcomes: &[Option<bool>]) -> Option<Child> {
        if setting.needs_success && outcomes.contains(&Some(false)) {
            return Some(Child::Cancelled);
        }
        outcomes.iter().all(Option::is_some).then_some(Child::Released(1))
    }

    pub(super) fn outcomes(&self) -> Vec<Option<bool>> {
        self.edges.iter().map(|edge| edge.outcome).collect()
    }
}
