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
//! A job that was fetched is in `runs` (the module) until its result is recorded or its lease is lost. In [`fetching`]'s slots
//! it first waits, then runs, until its attempt ends. A row that cannot be read takes no slot. Its result is in the channel of
//! results, in a batch of the completer, or set aside after the database rejected it.
//!
//! At a stop the producer ends first. Then the attempts end, or are stopped when the time for that is over. Then the completer
//! records what is left, the heartbeat deletes the runner's row, and the history is written.
//!
//! Invariants:
//! - A job is worked only under a live lease. Every result carries the lease's id and the run's number, and the database
//!   drops it when the job is no longer that run's.
//! - A result that reached the completer is sent until the database took it, or the lease is lost, or a stop runs out of
//!   time.
//! - A result that the database rejects holds up no other. While too many are not recorded, nothing is fetched.
//! - Every task that was started is awaited at the stop. That of a batch is aborted when the last of its attempts has ended.
//! - Each job that the database records as running under this lease is in `runs`. After a fetch that failed, the producer gives
//!   back the jobs that are not.
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
