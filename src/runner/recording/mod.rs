//! Recording: results gathered into batches and sent until the database took them.

pub(super) mod completer;
pub(super) mod recovery;
pub(super) mod rejected;
pub(super) mod result;
pub(super) mod retention;
pub(super) mod sending;
