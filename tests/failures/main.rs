//! What breaks: killed processes, harmed connections, crashed servers, full disks.

#![allow(missing_docs, unreachable_pub, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod chaos;
mod embedded;
mod faults;
mod graphs;
mod outages;

/// Not a test of its own: the process that `RunnerProcess` starts.
#[test]
fn runner_process() {
    support::process::runner_process();
}
