//! Pieces of HTML that pages share.

mod cli;
mod hostile;
mod layout;
mod length;
mod navigation;
mod number;
mod obstacles;
mod rows;
mod scale;
mod state;
mod time;
mod time_chart;

pub(crate) use self::cli::{argument, block, cli, json, quoted};
pub(crate) use self::hostile::{Cell, Hostile, Start, plain};
pub(crate) use self::layout::{Document, Shown, document};
pub(crate) use self::length::length_fields;
pub(crate) use self::navigation::name_of;
pub(crate) use self::number::{count, grouped, rate, short_count};
pub(crate) use self::obstacles::{named_job, why};
pub(crate) use self::rows::{
    Rows, fitting, hex, job_link, job_rows, job_table, key_cell, key_link, pages, place_cell, place_head, row_id,
    short, submit,
};
pub(crate) use self::scale::{Line, Scale, Unit};
pub(crate) use self::state::{state, state_class};
pub(crate) use self::time::{ago, at, countdown, span};
pub(crate) use self::time_chart::{Axis, time_chart};
