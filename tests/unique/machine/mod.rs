//! The state machine under random changes: every mask, every policy, every transition. One test goes step by step
//! against a model of the rules, the other uses many concurrent connections.
//!
//! Set `UNIQUEUE_MACHINE_SEED` to repeat a run and `UNIQUEUE_MACHINE_SECONDS`, or `UNIQUEUE_SOAK`, to make it longer.

mod contests;
mod crowd;
mod model;
mod modelled;
mod moves;

use support::prelude::*;

/// The seed of this run: given, or new and printed when the test fails.
fn seed() -> u64 {
    let seed = match std::env::var("UNIQUEUE_MACHINE_SEED") {
        Ok(given) => given.parse().expect("UNIQUEUE_MACHINE_SEED is a number"),
        Err(_) => uuid::Uuid::now_v7().as_u64_pair().1 >> 16,
    };
    println!("UNIQUEUE_MACHINE_SEED={seed}");
    seed
}

/// The states to which an operator moves a job.
fn not_running() -> Vec<JobState> {
    JobState::ALL.into_iter().filter(|state| *state != JobState::Running).collect()
}

/// How long a part of the test may go on.
fn length(usual: Duration, in_full: Duration) -> Duration {
    match std::env::var("UNIQUEUE_MACHINE_SECONDS") {
        Ok(given) => Duration::from_secs(given.parse().expect("UNIQUEUE_MACHINE_SECONDS is a number")),
        Err(_) => soak(usual, in_full),
    }
}
