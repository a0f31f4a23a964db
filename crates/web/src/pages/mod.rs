//! The pages, one file each.

pub(crate) mod live;
pub(crate) mod overview;
pub(crate) mod settings;
