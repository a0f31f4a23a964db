//! The runs of the counterparts: prepared SQL over connections of their own, with nothing of the library.
//!
//! The same code works on two tables: the library's, and a plain one that an application would write by hand.

pub(super) mod end_to_end;
pub(super) mod insert;
pub(super) mod latency;
pub(super) mod scheduled;
pub(super) mod work;
