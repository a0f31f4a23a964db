//! The dashboard against a real database.

mod rights;
mod support;
