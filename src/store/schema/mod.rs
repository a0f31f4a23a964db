//! The schema itself: its migrations, its place, its indexes, and what lies between it and a client.

#[cfg(feature = "migrate")]
pub(super) mod migrate;
pub(super) mod migrations;
pub(super) mod place;
pub(super) mod pooling;
pub(super) mod reindex;
#[cfg(feature = "testing")]
pub(super) mod scratch;
