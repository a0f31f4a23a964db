//! Diagnosis: the problems of a queue, their severity, and their remedies.
//!
//! A diagnosis is a series of checks. Each check sends one bounded query in a read-only transaction of its own, and judges
//! the result by [`Thresholds`]. A problem is a [`Finding`]. A check for which the role lacks a privilege, or that times
//! out, is reported as a [`SkippedCheck`].
//!
//! - `drift`: the schema, compared with the migrations of this library.
//! - `database`: dead rows, vacuum, indexes, and holders of old snapshots.
//! - `work`: runners, queues, jobs, claims, maintenance.
//! - `kinds`: kinds that live processes register differently.
//! - `groups`: groups whose first job has waited long.
//! - `full`: queues at their limit of waiting jobs.
//! - `environment`: notifications, poolers, clocks.
//! - `places`: places of a map, compared with each other.

mod database;
mod diagnose;
mod drift;
mod environment;
mod finding;
mod groups;
mod kinds;
mod periodic;
pub(crate) mod places;
mod queues;
mod thresholds;
mod wording;
mod work;

pub use self::diagnose::Diagnose;
pub use self::finding::{Diagnosis, Finding, FindingCode, Remedy, Severity, SkippedCheck};
pub use self::thresholds::{Limit, Thresholds};
