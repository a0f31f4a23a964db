//! The model: which actions there are, and the state after each.

use stateright::{Model, Property};

use crate::action::Action;
use crate::setting::{Answer, Setting};
use crate::world::{self, World};
use crate::{canonical, change, insert, rules, run};

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
