//! The server against a real database: by raw bytes, and by the `faktory` crate.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod client;
mod languages;
mod limits;
mod mutating;
mod numbers;
mod protocol;
mod support;
mod uniqueness;
mod working;
