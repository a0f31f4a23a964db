//! Checks that the schema of a client is the place that the client's map names.
//!
//! Each new connection of the client's pool reads the identity of the schema. So a pool that is led to another server notices
//! with its first connection there. A connection that was opened before the latest such notice, or while the pool may still
//! have been opening it, is *suspected*: it is asked again each time before it is used. A connection that was opened later
//! was in the place when it was asked. So the suspicion ends when the pool has opened its connections anew.
//!
//! Invariant: the result of a check is that of the checked connection alone. A connection that is elsewhere is closed, so
//! the next one asks again.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgConnection;

use super::time_limit;
use crate::error::{Error, Result};
use crate::store::{PlaceIdentity, Statements};
use crate::words::ident::PlaceName;

/// The identity that the schema must have.
#[derive(Debug)]
pub(crate) struct PlaceGuard {
    identity: PlaceIdentity,
    statements: Statements,
    /// The longest that the pool takes to open a connection. The pool counts a connection's age from the end of opening, and
    /// the connection is asked before.
    opening: Duration,
    /// When a connection was elsewhere last.
    elsewhere_at: Mutex<Option<Instant>>,
}

impl PlaceGuard {
    pub(in crate::client) const fn new(identity: PlaceIdentity, statements: Statements, opening: Duration) -> Self {
        Self { identity, statements, opening, elsewhere_at: Mutex::new(None) }
    }

    /// Asks a connection where it is. `None`: in the place. Else the error of a connection that is elsewhere.
    pub(in crate::client) async fn look(&self, connection: &mut PgConnection) -> sqlx::Result<Option<Error>> {
        let elsewhere = match self.statements.over(connection).place_identity().await {
            Ok(found) => match self.identity.check(found) {
                Ok(()) => return Ok(None),
                Err(elsewhere) => elsewhere,
            },
            Err(moved @ Error::PlaceMoved { .. }) => moved,
            Err(error) if error.is_undefined() => self.mismatch(None),
            // A server that stops or starts says nothing about the place. The pool tries again.
            Err(Error::Database(error)) if !matches!(error, sqlx::Error::Database(_)) => return Err(error),
            Err(error) if error.is_unreachable() => return Err(sqlx::Error::WorkerCrashed),
            Err(error) => self.mismatch(Some(format!("unknown ({error})"))),
        };
        *self.elsewhere_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(Some(elsewhere))
    }

    fn mismatch(&self, found: Option<String>) -> Error {
        Error::MapMismatch { place: self.name().clone(), found }
    }

    /// The place that the schema has to be.
    pub(in crate::client) const fn name(&self) -> &PlaceName {
        &self.identity.name
    }

    /// Whether an idle connection of this age of the pool may be used.
    pub(in crate::client) async fn is_usable(
        &self,
        connection: &mut PgConnection,
        age: Duration,
    ) -> sqlx::Result<bool> {
        Ok(!self.is_suspected(age) || self.look(connection).await?.is_none())
    }

    /// Whether a connection of this age is suspected.
    fn is_suspected(&self, age: Duration) -> bool {
        let elsewhere_at = *self.elsewhere_at.lock().unwrap_or_else(PoisonError::into_inner);
        elsewhere_at.is_some_and(|at| at.elapsed() <= age + self.opening)
    }

    /// Whether a connection that the pool handed out is there. A new one was asked when it was opened, and an idle one if
    /// it is suspected.
    pub(in crate::client) async fn check(&self, connection: &mut PgConnection) -> Result<()> {
        if !self.is_suspected(Duration::ZERO) {
            return Ok(());
        }
        let looking = async { Ok(self.look(connection).await?) };
        time_limit::within(time_limit::CHECK_TIMEOUT, looking).await?.map_or(Ok(()), Err)
    }

    /// Whether a connection of the caller's is there.
    pub(in crate::client) async fn check_callers(&self, connection: &mut PgConnection) -> Result<()> {
        let wrong = |found| Error::WrongPlace { kind: None, wanted: self.name().clone(), found };
        match self.statements.over(connection).place_identity().await {
            Ok(Some(found)) if found.name == *self.name() => self.identity.check(Some(found)),
            Ok(found) => Err(wrong(found.map(|found| found.name.to_string()))),
            Err(error) if error.is_undefined() => Err(wrong(None)),
            Err(error) => Err(error),
        }
    }

    /// Refuses a job of a kind that belongs to the place of this value, if that is another place.
    pub(in crate::client) fn check_job(&self, kind: &str, value: &str) -> Result<()> {
        match self.identity.place_of(value) {
            Some(wanted) if wanted != self.name().as_str() => {
                let (wanted, found) = (PlaceName::from_stored(wanted), Some(self.name().to_string()));
                Err(Error::WrongPlace { kind: Some(kind.to_owned()), wanted, found })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ident::SchemaName;

    #[test]
    fn a_connection_that_was_opened_after_the_last_notice_is_not_asked_again() {
        let identity = PlaceIdentity::new(PlaceName::new("a").unwrap(), None);
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let guard = PlaceGuard::new(identity, Statements::new(SchemaName::default()), minutes(1));
        assert!(!guard.is_suspected(minutes(30)), "no connection was elsewhere");
        let notice = |ago| *guard.elsewhere_at.lock().unwrap() = Instant::now().checked_sub(ago);
        notice(Duration::ZERO);
        assert!(guard.is_suspected(Duration::ZERO) && guard.is_suspected(minutes(30)));
        notice(minutes(10));
        let suspected = [0, 8, 10, 30].map(|age| guard.is_suspected(minutes(age)));
        assert_eq!(suspected, [false, false, true, true]);
    }
}
