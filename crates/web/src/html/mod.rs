//! Pieces of HTML that pages share.

mod chart;
mod cli;
mod hostile;
mod json;
mod layout;
mod length;
mod number;
mod rows;
mod state;
mod time;

pub(crate) use self::chart::sparkline;
pub(crate) use self::cli::{argument, cli, quoted};
pub(crate) use self::hostile::{Hostile, plain};
pub(crate) use self::json::json;
pub(crate) use self::layout::{Document, document};
pub(crate) use self::length::length_fields;
pub(crate) use self::number::{count, grouped, rate};
pub(crate) use self::rows::{hex, job_link, job_rows, key_link, submit};
pub(crate) use self::state::{state, state_class};
pub(crate) use self::time::{ago, at, countdown, span};
