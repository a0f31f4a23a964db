//! The command as people and scripts meet it: real processes, a real database, real files.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod bad_jobs;
mod bad_use;
mod database;
mod demo;
mod deploy;
mod doctor;
mod help;
mod incident;
mod jobs;
mod migrate;
/// The proxy of the library's tests.
#[path = "../../../../tests/it/chaos"]
#[expect(dead_code, unreachable_pub, reason = "the library's tests use the rest, and it is public there")]
mod network {
    mod dice;
    mod frames;
    pub mod proxy;
}
mod orphans;
mod queues;
mod roles;
mod screen;
mod serve;
mod silence;
mod support;
mod terminal;
mod top;
mod unique;
