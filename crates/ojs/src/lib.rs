//! A front door for [Open Job Spec](https://openjobspec.org) 1.0 over HTTP, levels 0 to 4: an [`axum::Router`] that a service
//! mounts in its own application, or that `uniqueue serve --ojs` serves.
//!
//! Runners of the library can work the jobs that OJS clients enqueue, and OJS workers can fetch the jobs that the library
//! inserts.
//!
//! ```no_run
//! use uniqueue::{Client, Maintainer};
//! use uniqueue_ojs::Ojs;
//!
//! # async fn run(client: Client) -> uniqueue::Result<()> {
//! let maintainer = Maintainer::new(client.clone()).start().await?;
//! let router = Ojs::new(client).start().await?;
//! # let _ = (maintainer, router);
//! # Ok(()) }
//! ```
//!
//! The door keeps cron entries, directives and the names of workflows in a schema of its own, which it creates when it
//! starts. It does no maintenance: run a [`Maintainer`](uniqueue::Maintainer) or a [`Runner`](uniqueue::Runner) beside it.

mod answer;
mod body;
mod cron;
mod dead_letter;
mod deadlines;
mod details;
mod door;
mod envelope;
mod events;
mod exact;
mod fields;
mod fuzz;
mod jobs;
mod ojs;
mod parents;
mod problem;
mod queues;
mod rate_limit;
mod reservations;
mod retry;
mod show;
mod state;
mod store;
mod system;
mod times;
mod workers;
mod workflow;

pub use self::answer::in_ojs_words;
pub use self::door::Access;
#[doc(hidden)]
pub use self::fuzz::fuzz;
pub use self::ojs::Ojs;
pub use uniqueue_http::Checks;
