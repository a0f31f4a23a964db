//! A model of the rules of unique keys, runs and groups, small enough that every order of events can be tried.
//!
//! A [`Setting`] bounds it: so many jobs, keys, runners and open transactions. A checker then visits each state that any
//! order of inserts, commits, fetches, results, crashes and changes by hand can lead to, and tests the [rules] in
//! each of them. A [`Mutation`] breaks one rule on purpose: the tests expect the checker to find it.
//!
//! One action of the model is one statement of PostgreSQL, or the end of a transaction. What a statement waits for in
//! PostgreSQL (the key of an open transaction, a locked row) is an action that is not possible yet.

mod action;
mod canonical;
mod change;
pub mod graph;
mod insert;
mod model;
pub mod rules;
mod run;
mod setting;
mod world;

pub use action::Action;
pub use setting::{Answer, Mutation, Outcome, Scope, Setting};
pub use world::{Job, Phase, Runner, Transaction, World};
