//! Diagnosis: the problems of a queue, their severity, and their remedies.
//!
//! A check is a function of the schema, which `diagnose()` in SQL calls as well: it finds, judges by [`Thresholds`] and words
//! each [`Finding`]. Here each check is called in a read-only transaction of its own. A check for which the role lacks a
//! privilege, or that times out, is reported as a [`SkippedCheck`].
//!
//! Only what no function of the schema can know is found here:
//!
//! - `drift`: the schema, compared with the migrations of this library, and `rebuild`: the SQL that mends it.
//! - `environment`: poolers, clocks, a database that can have no queue.
//! - `places`: places of a map, compared with each other.

mod diagnose;
mod drift;
mod environment;
mod finding;
mod objects;
mod places;
mod thresholds;

pub use self::diagnose::Diagnose;
pub use self::finding::{Diagnosis, Finding, Remedy, Severity, SkippedCheck};
pub use self::places::{COMPARED_KEYS, diagnose_places, doubled_keys};
pub use self::thresholds::Thresholds;
