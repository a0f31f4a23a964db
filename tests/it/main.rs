//! The integration tests: one binary, one embedded PostgreSQL for all of them, a schema for each.

#![allow(missing_docs, unreachable_pub, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod support;

mod api;
mod audit;
mod backfill;
mod backup;
mod bad_input;
mod bad_keys;
mod by_hand;
mod chaos;
mod costs;
mod derive;
mod embedded;
mod examples;
mod faults;
mod floors;
mod groups;
mod guide;
mod health;
mod injection;
mod insert_middleware;
mod look_ups;
mod machine;
mod maintenance;
mod manifest;
mod max_waiting;
mod modes;
mod moving;
mod notifying;
mod open_transaction;
mod operators_lists;
mod outages;
mod plans;
mod portable;
mod queues;
mod rates;
mod roles;
mod rules;
mod runner;
mod schema;
mod seeds;
mod selecting;
mod sharing;
mod sql_door;
mod sql_page;
mod states;
mod stats;
mod stress;
mod testing;
mod tour;
mod unique_properties;
mod unique_vectors;
mod views;
mod waiting_for_results;
