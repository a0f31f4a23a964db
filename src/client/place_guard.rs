//! Checks that the schema of a client is the place that the client's map names.
//!
//! States: *trusted*, and *suspected* after the first connection that was elsewhere. Each new connection of the client's
//! pool reads the identity of the schema. So a pool that is led to another server notices with its first connection there.
//! From then on each connection is asked again before it is used, because some of the pool may be here and others
//! elsewhere.
//!
//! Invariant: the result of a check is that of the checked connection alone. A connection that is elsewhere is closed, so
//! the next one asks again.

use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{PgConnection, SqlStr};

use super::answer;
use crate::error::{Error, Result};
use crate::ident::PlaceName;
use crate::store::{self, PlaceIdentity};

/// The identity that the schema must have.
#[derive(Debug)]
pub(crate) struct PlaceGuard {
    identity: PlaceIdentity,
    statement: SqlStr,
    /// Whether a connection was elsewhere.
    is_suspected: AtomicBool,
}

/// The result of a check that failed.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// The identity that was found. `None`: there is none.
    found: Option<String>,
}

impl PlaceGuard {
    pub(super) const fn new(identity: PlaceIdentity, statement: SqlStr) -> Self {
        Self { identity, statement, is_suspected: AtomicBool::new(false) }
    }

    /// Asks a connection where it is. `None`: in the place.
    pub(super) async fn look(&self, connection: &mut PgConnection) -> sqlx::Result<Option<Elsewhere>> {
        let found = match store::place_identity(connection, &self.statement).await {
            Ok(Some(found)) if found == self.identity => return Ok(None),
            Ok(found) => found.map(|found| found.to_string()),
            Err(error) if error.is_undefined() => None,
            // A server that stops or starts says nothing about the place. The pool tries again.
            Err(Error::Database(error)) if !matches!(error, sqlx::Error::Database(_)) => return Err(error),
            Err(error) if error.is_unreachable() => return Err(sqlx::Error::WorkerCrashed),
            Err(error) => Some(format!("unknown ({error})")),
        };
        self.is_suspected.store(true, Ordering::Release);
        Ok(Some(Elsewhere { found }))
    }

    /// The place that the schema has to be.
    pub(super) const fn name(&self) -> &PlaceName {
        &self.identity.name
    }

    /// Whether an idle connection of the pool may be used.
    pub(super) async fn is_usable(&self, connection: &mut PgConnection) -> sqlx::Result<bool> {
        Ok(!self.is_suspected.load(Ordering::Acquire) || self.look(connection).await?.is_none())
    }

    /// Whether a connection that the pool handed out is there. It asked when it was new, and so suspects itself.
    pub(super) async fn check(&self, connection: &mut PgConnection) -> Result<()> {
        if !self.is_suspected.load(Ordering::Acquire) {
            return Ok(());
        }
        let looking = async { Ok(self.look(connection).await?) };
        answer::within(answer::CHECK_TIMEOUT, looking).await?.map_or(Ok(()), |elsewhere| Err(self.mismatch(elsewhere)))
    }

    /// The error of a connection that is elsewhere.
    pub(super) fn mismatch(&self, elsewhere: Elsewhere) -> Error {
        Error::MapMismatch { place: self.identity.name.clone(), found: elsewhere.found }
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
