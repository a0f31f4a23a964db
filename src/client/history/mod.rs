//! History: counting in memory, and writing once a minute.

mod counter;
mod writer;

pub(crate) use self::counter::{HistoryCounter, INTERVAL, Series};
