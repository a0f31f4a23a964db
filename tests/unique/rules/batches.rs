//! R10: a batch has the same result as its inserts one after another.

mod answers;
mod rivals;
mod size;

use support::prelude::*;

fn unique(text: &str, on_conflict: OnConflict) -> NewJob {
    job("a").unique_key(UniqueKey::raw(text).scope(UniqueScope::Active).on_conflict(on_conflict))
}
