//! Wake-ups: one connection that listens, underneath which polling goes on.
//!
//! PostgreSQL drops what is sent while the listener reconnects, so every reconnect counts as a
//! wake-up. A missed one only costs the wait until the next poll.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::ident::SchemaName;
use crate::store;

/// The wait before a lost connection is tried again.
const RECONNECT_WAIT: Duration = Duration::from_secs(1);

/// Listens until stopped, and wakes on every notification for one of the queues.
pub(crate) async fn listen(
    pool: PgPool,
    schema: SchemaName,
    queues: Vec<String>,
    wake: Arc<Notify>,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let listening = listen_once(&pool, &schema, &queues, &wake);
        tokio::select! {
            () = stop.cancelled() => return,
            Err(error) = listening => {
                tracing::warn!(%error, "lost the connection that listens for wake-ups; polling goes on");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RECONNECT_WAIT) => {}
        }
    }
}

async fn listen_once(
    pool: &PgPool,
    schema: &SchemaName,
    queues: &[String],
    wake: &Notify,
) -> Result<std::convert::Infallible> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(&store::channel(schema)).await?;
    // Whatever was sent before this connection listened is found by looking.
    wake.notify_one();
    loop {
        match listener.try_recv().await? {
            Some(notification) if queues.iter().any(|queue| queue == notification.payload()) => {
                wake.notify_one();
            }
            Some(_) => {}
            None => wake.notify_one(),
        }
    }
}
