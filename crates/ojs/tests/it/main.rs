//! The door against a real database.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod events;
mod fixture;
mod jobs;
mod matcher;
mod nested;
mod numbers;
mod path;
mod play;
mod suites;
mod unique;
mod workers;
mod workflows;
