//! The client of a place.

use sqlx::PgConnection;

use super::Client;
use crate::error::Result;
use crate::words::ident::PlaceName;

impl Client {
    /// The place that the client is for, if it comes from [`Places`](crate::Places).
    #[must_use]
    pub fn place(&self) -> Option<&PlaceName> {
        self.inner.place.as_ref().map(|place| place.name())
    }

    /// Whether a connection of the pool is in the place that the client is for.
    pub(super) async fn check_place(&self, connection: &mut PgConnection) -> Result<()> {
        match &self.inner.place {
            None => Ok(()),
            Some(place) => place.check(connection).await,
        }
    }

    /// Whether a connection of the caller's is in the place that the client is for. It costs a look-up, and nothing where
    /// the client is for no place.
    pub(super) async fn check_callers_place(&self, connection: &mut PgConnection) -> Result<()> {
        match &self.inner.place {
            None => Ok(()),
            Some(place) => place.check_callers(connection).await,
        }
    }
}
