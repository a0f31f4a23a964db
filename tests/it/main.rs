//! The integration tests: one binary, one embedded PostgreSQL for all of them, a schema for each.

#![allow(missing_docs)]

mod support;

mod derive;
mod embedded;
mod ui;
mod unique_rules;
