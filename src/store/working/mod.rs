//! Working jobs: leases, fetches, results, and what a runner does for all others.

pub(super) mod fetch;
pub(super) mod fetch_answer;
pub(super) mod finish;
pub(super) mod progress;
pub(super) mod runners;
pub(super) mod service;
pub(super) mod set_aside;
#[cfg(feature = "testing")]
pub(super) mod testing;
