//! A model of jobs that run after others: one child, its parents, and releasers that work at the same time.
//!
//! A releaser's step is several statements of one transaction. Each statement sees the rows that were committed before it
//! began, and the changes of its own transaction. So each statement is an action, and other actions come between them.

mod action;
mod model;
mod releaser;
pub mod rules;
mod setting;
mod world;

pub use self::action::GraphAction;
pub use self::setting::{GraphMutation, GraphSetting};
pub use self::world::{Child, Edge, Graph, Parent, Step};
