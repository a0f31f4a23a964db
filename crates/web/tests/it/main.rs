//! The dashboard against a real database.

mod metrics;
mod rights;
mod support;
