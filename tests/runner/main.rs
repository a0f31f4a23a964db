//! The runner, against a real database: outcomes, fencing, wake-ups, leases, stops.

#![allow(missing_docs, unreachable_pub, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod beginning;
mod completed_in;
mod control;
mod events;
mod failures;
mod fencing;
mod grace;
mod line;
mod metrics;
mod middleware;
mod mishaps;
mod outcomes;
mod policies;
mod pools;
mod progress;
mod recovery;
mod reentry;
mod refused_starts;
mod rejected;
mod scanning;
mod set_aside;
mod settings;
mod signals;
mod slots;
mod stopping;
mod suspects;
mod tracing;
mod unanswered;
mod unreadable;
mod waking;

use support::prelude::*;

/// Waits until the runner has told the database that it sleeps.
async fn until_idle(database: &Database) {
    eventually!(database.number("SELECT count(*) FROM {schema}.runner WHERE idle").await > 0);
}

/// Not a test of its own: the process that `RunnerProcess` starts.
#[test]
fn runner_process() {
    support::process::runner_process();
}
