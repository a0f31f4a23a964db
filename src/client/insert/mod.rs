//! Inserting jobs.
//!
//! ```text
//! builders ─▶ call ─▶ middleware ─▶ resolve ─▶ batch ─▶ store::insert
//!                         a single job ─▶ coalescer ─┘
//! ```
//!
//! `call` has each job layered with its options and checked (`resolve`), folds equal keys (`batch`), and sends the batch
//! over the caller's connection or one of the pool, in `parts` if it is large. A single job of its own transaction goes through the `coalescer`,
//! which sends it together with others that come at the same time. The answers come back the same way.

mod batch;
mod builders;
mod call;
mod coalescer;
mod middleware;
mod parts;
mod resolve;

pub use self::builders::{Insert, InsertMany};
pub(super) use self::coalescer::Coalescer;
pub(super) use self::middleware::{AnyInsertMiddleware, InsertLayers};
pub use self::middleware::{InsertMiddleware, NextInsert};
pub(super) use self::resolve::{Resolver, check_year, needs_clock, prepare_one, value_of};

use super::Client;
