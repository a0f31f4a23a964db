//! Connections that runners and maintainers open beside the client's pool.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

use super::place_guard::PlaceGuard;
use crate::client::Client;
use crate::error::Result;

/// The address of the connections. With a place's client, each new connection is asked which place it is in. So a runner that is
/// led to another server works no job there.
#[derive(Clone, Debug)]
pub(crate) struct OwnConnections {
    pub(crate) options: PgConnectOptions,
    place: Option<Arc<PlaceGuard>>,
}

impl Client {
    pub(crate) fn own_connections(&self) -> OwnConnections {
        OwnConnections { options: (*self.pool().connect_options()).clone(), place: self.inner.place.clone() }
    }
}

impl OwnConnections {
    /// Opens a connection.
    pub(crate) async fn open(&self) -> Result<PgConnection> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        self.check(&mut connection).await?;
        Ok(connection)
    }

    /// Checks a new connection. An error says that the server was not reached: it is tried again until the right one is there.
    pub(crate) async fn check(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let Some(place) = &self.place else { return Ok(()) };
        let Some(elsewhere) = place.look(connection).await? else { return Ok(()) };
        Err(io::Error::new(ErrorKind::ConnectionRefused, elsewhere.to_string()).into())
    }
}
