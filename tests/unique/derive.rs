//! `#[derive(Job)]` makes the same jobs as the builders.

mod fields;
mod options;
mod policies;

use uniqueue::{InsertOptions, UniquePolicy};

/// What the options of a job unique by that policy are.
fn unique(policy: UniquePolicy) -> InsertOptions {
    InsertOptions::new().unique(policy)
}
