//! The command as people and scripts meet it: real processes, a real database, real files.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod bad_use;
mod database;
mod demo;
mod deploy;
mod doctor;
mod help;
mod incident;
mod jobs;
mod kinds;
mod migrate;
mod orphans;
mod places;
mod queues;
mod roles;
mod screen;
mod serve;
mod silence;
mod since;
mod support;
mod terminal;
mod top;
mod unique;
mod work;
