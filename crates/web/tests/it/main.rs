//! The dashboard against a real database.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod browser;
mod changes;
mod export;
mod groups;
mod history;
mod hostile;
mod key;
mod kinds;
mod metrics;
mod numbers;
mod outage;
mod overview;
mod pages;
mod places;
mod rights;
mod search;
mod sizes;
mod support;
