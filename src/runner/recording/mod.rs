//! Recording: results gathered into batches and sent until the database took them.

pub(super) mod completed_rows;
pub(super) mod completer;
pub(super) mod lost_answers;
pub(super) mod rejected;
pub(super) mod result;
pub(super) mod sending;
