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

/// A small generator (splitmix64), so that a run can be repeated from its seed.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// A generator of its own for a part of the run.
    fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

/// The seed of this run: given, or new and printed when the test fails.
fn seed() -> u64 {
    let seed = match std::env::var("UNIQUEUE_MACHINE_SEED") {
        Ok(given) => given.parse().expect("UNIQUEUE_MACHINE_SEED is a number"),
        Err(_) => uuid::Uuid::now_v7().as_u64_pair().1 >> 16,
    };
    println!("UNIQUEUE_MACHINE_SEED={seed}");
    seed
}

/// How long a part of the test may go on.
fn length(usual: Duration, in_full: Duration) -> Duration {
    match std::env::var("UNIQUEUE_MACHINE_SECONDS") {
        Ok(given) => Duration::from_secs(given.parse().expect("UNIQUEUE_MACHINE_SECONDS is a number")),
        Err(_) => soak(usual, in_full),
    }
}
