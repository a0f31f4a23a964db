//! The connections of a client: its pool's, a caller's own and those beside the pool, each with its limits and checks.

pub(super) mod connection;
pub(crate) mod growing_wait;
pub(super) mod look_up;
pub(crate) mod own_connections;
pub(super) mod place_guard;
pub(crate) mod pooled_connection;
pub(super) mod schema_check;
pub(crate) mod time_limit;
pub(super) mod url;
