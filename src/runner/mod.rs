//! The runner: fetches jobs, works them and records their results.
//!
//! ```text
//!              ┌────────── freed slots ───────────┐
//!              ▼                                  │
//! notify ─▶ producer ─fetch─▶ slots ─▶ executor ──┴─ results ─▶ completer ─batches─▶ database
//! ```
//!
//! Read [`producer`], [`executor`] and [`completer`] first; each names the files that it uses. Beside them, the
//! [`heartbeat`] extends the lease and stops runs that were taken away, [`progress`] stores what running jobs report, and
//! [`maintenance`] promotes, rescues and prunes for all runners.
//!
//! Invariants:
//! - A job is worked only under a live lease. Every result carries the lease's id and the run's number, and the database
//!   drops it when the job is no longer that run's.
//! - A result that reached the completer is sent until the database took it, or the lease is lost, or a stop runs out of
//!   time.
//! - A result that the database rejects holds up no other. While too many are not recorded, nothing is fetched.
//! - Every task that was started is awaited at the stop.
//! - A job that runs here according to the database is in hand: after a fetch that failed, the others are given back.
//!
//! Failures: while the database is away, fetches and results are tried again with a growing wait. A lease that could not
//! be extended in time counts as lost, its jobs are stopped, and the runner goes on under a new lease.

mod budget;
mod builder;
mod completer;
mod connections;
mod cursor;
#[cfg(feature = "testing")]
mod drain;
mod executor;
mod failing_queues;
mod failures;
mod fetch;
mod groups;
mod handle;
mod health;
mod heartbeat;
mod job_limit;
mod lease;
mod maintenance;
mod options;
mod panics;
#[cfg(feature = "periodic")]
mod periodic;
mod polling;
mod producer;
mod progress;
mod recording;
mod recovery;
mod registration;
mod rejected;
mod result;
mod retention;
mod runs;
mod setters;
mod shared;
mod shutdown_signal;
mod slots;
mod start;
mod telemetry;
mod verdict;
mod work;

pub(crate) use self::budget::{Budget, Share};
pub use self::builder::Runner;
#[cfg(feature = "testing")]
pub(crate) use self::drain::{Attempted, Drainer};
pub use self::handle::RunnerHandle;
pub use self::health::RunnerHealth;
pub use self::maintenance::{Maintainer, MaintainerHandle};
pub(crate) use self::recovery::GrowingWait;
pub use self::shutdown_signal::shutdown_signal;
