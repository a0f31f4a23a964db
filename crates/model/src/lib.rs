//! A model of the rules of unique keys, runs and groups, small enough that every order of events can be tried.
//!
//! A [`Setting`] bounds it: so many jobs, keys, runners and open transactions. A checker then visits each state that any
//! order of inserts, commits, fetches, results, crashes and changes by hand can lead to, and tests the [rules] in
//! each of them. A [`Mutation`] breaks one rule on purpose: the tests expect the checker to find it.
//!
//! One action of the model is one statement of PostgreSQL, or the end of a transaction. What a statement waits for in
//! PostgreSQL (the key of an open transaction, a locked row) is an action that is not possible yet.

mod canonical;
mod change;
mod insert;
pub mod rules;
mod run;
mod setting;
mod world;

pub use insert::Answer;
pub use run::Outcome;
pub use setting::{Mutation, Setting};
pub use world::{Job, Phase, Runner, Scope, Transaction, World};

use stateright::{Model, Property};

/// What can happen. Jobs, transactions and runners are numbered from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    /// A caller's transaction changes data of the caller's and inserts a job with a key.
    Insert {
        /// The transaction, which begins here.
        transaction: u8,
        /// The job's key.
        key: u8,
        /// What a duplicate does.
        answer: Answer,
    },
    /// A transaction commits.
    Commit(u8),
    /// A transaction rolls back.
    RollBack(u8),
    /// A scheduled or retryable job is due.
    Promote(u8),
    /// A runner fetches the next job, and starts it.
    Fetch(u8),
    /// A runner records the result of a run that it has in hand: the run's place there.
    Finish(u8, u8, Outcome),
    /// A runner's lease runs out. It does not know, and goes on.
    LoseLease(u8),
    /// A job of a runner without a lease is rescued.
    Rescue(u8),
    /// The claim of a job expires.
    Expire(u8),
    /// An operator cancels a job.
    Cancel(u8),
    /// An operator makes a final job run again.
    Retry(u8),
    /// An operator releases a job's claim.
    Release(u8),
}

impl Model for Setting {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Action>) {
        for transaction in 0..self.transactions {
            for key in 0..self.keys {
                let insert = |answer: &Answer| Action::Insert { transaction, key, answer: *answer };
                actions.extend(self.answers.iter().map(insert));
            }
            actions.extend([Action::Commit(transaction), Action::RollBack(transaction)]);
        }
        for runner in 0..self.runners {
            actions.push(Action::Fetch(runner));
            for place in 0..world::MAX_IN_HAND {
                actions.extend(self.outcomes.iter().map(|outcome| Action::Finish(runner, place, *outcome)));
            }
        }
        if self.has_crashes {
            // Another runner stays alive.
            actions.push(Action::LoseLease(0));
        }
        for job in 0..self.jobs {
            actions.extend([Action::Promote(job), Action::Rescue(job)]);
            if self.has_expiry {
                actions.push(Action::Expire(job));
            }
            if self.has_operator {
                actions.extend([Action::Cancel(job), Action::Retry(job), Action::Release(job)]);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let is_possible = match action {
            Action::Insert { transaction, key, answer } => insert::insert(self, &mut next, transaction, key, answer),
            Action::Commit(transaction) => insert::commit(&mut next, transaction),
            Action::RollBack(transaction) => insert::roll_back(&mut next, transaction),
            Action::Promote(job) => change::promote(self, &mut next, job),
            Action::Fetch(runner) => run::fetch(self, &mut next, runner),
            Action::Finish(runner, place, outcome) => run::finish(self, &mut next, runner, place, outcome),
            Action::LoseLease(runner) => run::lose_lease(&mut next, runner),
            Action::Rescue(job) => run::rescue(self, &mut next, job),
            Action::Expire(job) => change::expire(&mut next, job),
            Action::Cancel(job) => change::cancel(&mut next, job),
            Action::Retry(job) => change::retry(self, &mut next, job),
            Action::Release(job) => change::release(&mut next, job),
        };
        let next = is_possible.then(|| canonical::canonical(self, next))?;
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rules::all()
    }
}
