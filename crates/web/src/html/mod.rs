//! Pieces of HTML that pages share.

mod chart;
mod hostile;
mod layout;
mod number;
mod state;
mod time;

pub(crate) use self::chart::sparkline;
pub(crate) use self::hostile::Hostile;
pub(crate) use self::layout::{Document, document};
pub(crate) use self::number::{count, grouped, rate};
pub(crate) use self::state::state;
pub(crate) use self::time::{ago, span};
