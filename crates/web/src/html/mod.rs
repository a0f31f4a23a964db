//! Pieces of HTML that pages share.

mod cli;
mod hostile;
mod layout;
mod navigation;
mod number;
mod obstacles;
mod rows;
mod scale;
mod time;
mod time_chart;

pub(crate) use self::cli::{argument, block, cli, json, quoted};
pub(crate) use self::hostile::{Cell, Hostile, Start, plain};
pub(crate) use self::layout::{Document, Shown, document};
pub(crate) use self::navigation::name_of;
pub(crate) use self::number::{count, grouped, rate, short_count, state, state_class};
pub(crate) use self::obstacles::{named_job, why};
pub(crate) use self::rows::{
    Rows, fitting, job_link, job_rows, job_table, key_cell, key_link, pages, place_cell, place_head, row_id, short,
    submit,
};
pub(crate) use self::scale::{Line, Scale, Unit};
pub(crate) use self::time::{ago, at, countdown, length_fields, span};
pub(crate) use self::time_chart::{Axis, time_chart};
