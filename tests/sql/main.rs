//! The schema and its SQL: the front door, views, health, roles, plans and costs.

#![allow(missing_docs, unreachable_pub, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod backup;
mod costs;
mod fetching;
mod guide;
mod health;
mod injection;
mod look_ups;
mod operators_lists;
mod plans;
mod queues;
mod roles;
mod schema;
mod sql_door;
mod sql_page;
mod stale_plans;
mod stats;
mod text_order;
mod views;
mod why;
