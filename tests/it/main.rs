//! The integration tests: one binary, one embedded PostgreSQL for all of them, a schema for each.

#![allow(missing_docs, unreachable_pub)]

mod support;

mod derive;
mod embedded;
mod machine;
mod plans;
mod rules;
mod runner;
mod stress;
mod ui;
mod unique_properties;
mod unique_vectors;
