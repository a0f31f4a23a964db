//! The life of a runner: its lease and its heartbeat, its health, and how it stops.

pub(super) mod handle;
pub(super) mod health;
pub(super) mod heartbeat;
pub(super) mod lease;
pub(super) mod shutdown_signal;
