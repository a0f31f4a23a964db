//! The runner: fetches jobs, works them and records their results.
//!
//! ```text
//!              ┌────────── freed slots ───────────┐
//!              ▼                                  │
//! notify ─▶ producer ─fetch─▶ slots ─▶ executor ──┴─ results ─▶ completer ─batches─▶ database
//! ```
//!
//! [`fetching`] begins with its `producer`, [`working`] with its `executor` and [`recording`] with its `completer`. [`setup`]
//! starts them. Beside them the `heartbeat` of [`life`] extends the lease and stops runs that were taken away, and
//! `crate::maintenance` promotes, rescues and prunes for all runners.
//!
//! Invariants:
//! - A job is worked only under a live lease. Every result carries the lease's id and the run's number, and the database
//!   drops it when the job is no longer that run's.
//! - A result that reached the completer is sent until the database took it, or the lease is lost, or a stop runs out of
//!   time.
//! - A result that the database rejects holds up no other. While too many are not recorded, nothing is fetched.
//! - Every task that was started is awaited at the stop. That of a batch is aborted when the last of its attempts has ended.
//! - A job that runs here according to the database is in hand: after a fetch that failed, the others are given back.
//!
//! Failures: while the database is away, fetches and results are tried again with a growing wait. A lease that could not
//! be extended in time counts as lost, its jobs are stopped, and the runner goes on under a new lease.

#[cfg(feature = "testing")]
mod drain;
mod fetching;
mod life;
mod maintainer;
mod recording;
mod runs;
mod setup;
mod shared;
mod telemetry;
mod working;

#[cfg(feature = "testing")]
pub(crate) use self::drain::Drainer;
#[cfg(feature = "testing")]
pub use self::drain::WorkedJob;
pub(crate) use self::fetching::budget::{Budget, Share};
pub use self::life::handle::RunnerHandle;
pub use self::life::health::RunnerHealth;
pub use self::life::shutdown_signal::shutdown_signal;
pub use self::maintainer::{Maintainer, MaintainerHandle};
pub use self::setup::builder::Runner;
