//! Checks that the schema of a client is the place that the client's map names.
//!
//! States: *open*, and *refused*, with the identity that was found. Each new connection of the client's pool reads the
//! identity of the schema, and the result is the state. So a pool that is led to another server notices with its first
//! connection there.
//!
//! Invariant: while refused, no connection of the pool is handed out. Each is closed, so the next one asks again.

use std::sync::{Mutex, PoisonError};

use sqlx::{PgConnection, SqlStr};

use crate::error::{Error, Result};
use crate::ident::PlaceName;
use crate::store::{self, PlaceIdentity};

/// The identity that the schema must have, and the result of the last check.
#[derive(Debug)]
pub(crate) struct PlaceGuard {
    identity: PlaceIdentity,
    statement: SqlStr,
    /// The identity that the last check found, if the check failed.
    refused: Mutex<Option<Option<String>>>,
}

impl PlaceGuard {
    pub(super) const fn new(identity: PlaceIdentity, statement: SqlStr) -> Self {
        Self { identity, statement, refused: Mutex::new(None) }
    }

    /// Asks a new connection where it is.
    pub(super) async fn look(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let found = match store::place_identity(connection, &self.statement).await {
            Ok(Some(found)) if found == self.identity => None,
            Ok(found) => Some(found.map(|found| found.to_string())),
            Err(error) if error.is_undefined() => Some(None),
            // A server that stops or starts says nothing about the place. The pool tries again.
            Err(Error::Database(error)) if !matches!(error, sqlx::Error::Database(_)) => return Err(error),
            Err(error) if error.is_unreachable() => return Err(sqlx::Error::WorkerCrashed),
            Err(error) => Some(Some(format!("unknown ({error})"))),
        };
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }

    /// The place that the schema has to be.
    pub(super) const fn name(&self) -> &PlaceName {
        &self.identity.name
    }

    /// Whether the pool leads there.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.refused.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(found) => Err(Error::MapMismatch { place: self.identity.name.clone(), found: found.clone() }),
        }
    }

    /// Whether a connection of the caller's is there.
    pub(super) async fn check_callers(&self, connection: &mut PgConnection) -> Result<()> {
        let wanted = || self.identity.name.clone();
        match store::place_identity(connection, &self.statement).await {
            Ok(Some(found)) if found.name == self.identity.name => Ok(()),
            Ok(found) => {
                Err(Error::WrongPlace { wanted: wanted(), found: found.map(|found| format!("place {}", found.name)) })
            }
            Err(error) if error.is_undefined() => Err(Error::WrongPlace { wanted: wanted(), found: None }),
            Err(error) => Err(error),
        }
    }
}
