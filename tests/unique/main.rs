//! What is unique: rules, seeds, keys, policies, and what a duplicate gets.

#![allow(missing_docs, unreachable_pub, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod audit;
mod backfill;
mod bad_input;
mod by_hand;
mod derive;
mod insert_middleware;
mod machine;
mod max_waiting;
mod open_transaction;
mod rules;
mod seeds;
mod selecting;
mod sharing;
mod states;
mod stress;
mod unique_properties;
mod unique_vectors;
