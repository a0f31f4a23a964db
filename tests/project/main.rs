//! The project itself: its layout, public API, manifest, examples and pages.

#![allow(missing_docs, unreachable_pub, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod api;
mod examples;
mod floors;
mod links;
mod manifest;
mod tour;
