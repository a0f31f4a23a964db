//! Maintenance: small services that keep the tables in order while runners work, all with one contract.
//!
//! ```text
//! wait for the lease ─▶ run once ─▶ rest (as long as the run said) ─▶ run once ─▶ …
//!        ▲ ───────────── taken over ◀──────┘ extend when little of the term is left
//! ```
//!
//! Invariants:
//! - Correctness never depends on a lease: rows are locked with SKIP LOCKED, finishes are fenced,
//!   slots are keyed. Two holders at once cost double and do no harm.
//! - Services share one connection of the runner's own, never the application's pool. They work in
//!   small batches under a statement timeout, so that none blocks the others for long. A service
//!   with long statements opens a connection for its run.
//! - A stop is immediate, since every statement may be cancelled, and releases the leases. The lease
//!   of a holder that is killed ends by itself: a margin after its next run.
//!
//! Failures: an error is logged and costs a growing wait. What a row that the database refuses to change, or changes too
//! slowly, does to others is the same for runners and `maintain()`: see `V30__maintain.sql`. A runner that cannot extend its
//! lease goes back to waiting for it.

mod connection;
mod database_service;
mod lease;
#[cfg(feature = "periodic")]
mod periodic;
mod reindexer;
mod service;

pub(crate) use self::connection::SharedConnection;
pub(crate) use self::database_service::{DatabaseService, MAX_CRASHES};
pub(crate) use self::lease::Holder;
#[cfg(feature = "periodic")]
pub(crate) use self::periodic::PeriodicInserter;
pub(crate) use self::reindexer::Reindexer;
pub(crate) use self::service::serve;
