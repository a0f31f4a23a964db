//! The runs of the counterparts: prepared SQL on the library's table, over connections of their own, with nothing of the library.

pub(super) mod insert;
pub(super) mod latency;
pub(super) mod scheduled;
pub(super) mod work;
