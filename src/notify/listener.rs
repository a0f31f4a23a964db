//! Opening a connection that listens.

use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Acquire, PgPool};

use crate::client::own_connections::OwnConnections;
use crate::error::Result;

/// Opens a connection, checks where it leads to, and listens on these channels. A listener needs a pool, which never has another
/// connection.
pub(super) async fn listener<'n>(
    own: &OwnConnections,
    names: impl Iterator<Item = &'n str>,
) -> Result<(PgPool, PgListener)> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(own.options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    own.check(listener.acquire().await?).await?;
    let names: Vec<_> = names.collect();
    if !names.is_empty() {
        listener.listen_all(names).await?;
    }
    Ok((pool, listener))
}
