//! What is wrong with a queue, how bad it is, and what helps.
//!
//! A diagnosis is a row of checks. Each asks the database one bounded question in a read-only transaction of its own
//! and judges the answer by [`Thresholds`]; what it finds is a [`Finding`]. A question that the role may not ask, or
//! that is not answered in time, is told as [`NotLookedAt`]: nothing passes in silence.
//!
//! - `drift`: the schema against what this library's migrations make.
//! - `database`: dead rows, vacuum, indexes, and who holds an old snapshot.
//! - `work`: runners, queues, jobs, claims, maintenance.
//! - `around`: notifications, poolers, clocks.

mod around;
mod database;
mod diagnose;
mod drift;
mod finding;
mod thresholds;
mod wording;
mod work;

pub use self::diagnose::Diagnose;
pub use self::finding::{Diagnosis, Finding, FindingCode, NotLookedAt, Remedy, Severity};
pub use self::thresholds::{Limit, Thresholds};
