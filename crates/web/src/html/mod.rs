//! Pieces of HTML that pages share.

mod hostile;
mod layout;
mod navigation;
mod rows;
mod scale;
mod time_chart;
mod values;

pub(crate) use self::hostile::{Cell, Hostile, Start, argument, block, cli, json, plain, quoted};
pub(crate) use self::layout::{Document, Shown, document};
pub(crate) use self::navigation::name_of;
pub(crate) use self::rows::{
    Rows, fitting, job_link, job_rows, job_table, key_cell, key_link, named_job, pages, place_cell, place_head, row_id,
    short, submit, why,
};
pub(crate) use self::scale::{Line, Scale, Unit};
pub(crate) use self::time_chart::{Axis, time_chart};
pub(crate) use self::values::{
    ago, at, count, countdown, grouped, length_fields, rate, short_count, span, state, state_class,
};
