//! Jobs at work: groups, rates, maintenance, wake-ups, results and the testing kit.

#![allow(missing_docs, unreachable_pub, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod after;
mod batches;
mod clients;
mod errors;
mod expiry;
mod groups;
mod history;
mod kinds;
mod maintenance;
mod modes;
mod notifying;
mod places;
mod rates;
mod recipes;
mod remote;
mod testing;
mod waiting_for_results;

/// Not a test of its own: the process that `RunnerProcess` starts.
#[test]
fn runner_process() {
    support::process::runner_process();
}
