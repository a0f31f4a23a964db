//! The pages, one file each.

pub(crate) mod bulk;
pub(crate) mod changes;
pub(crate) mod doctor;
pub(crate) mod duplicates;
pub(crate) mod explain;
pub(crate) mod failing;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod insert;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod key;
pub(crate) mod keys;
pub(crate) mod kinds;
mod lab;
pub(crate) mod overview;
pub(crate) mod periodic;
pub(crate) mod places;
mod prelude;
pub(crate) mod queues;
pub(crate) mod runners;
pub(crate) mod running;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod waiting;
