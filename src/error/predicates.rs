//! Questions about an error: whether to try again, and what it stands for.

use sqlx::error::DatabaseError;

use super::Error;
use super::database::is_mix_up;

impl Error {
    /// The error of the server, if the database refused a statement or a connection.
    fn by_server(&self) -> Option<&dyn DatabaseError> {
        match self {
            Error::Database(sqlx::Error::Database(error))
            | Error::Connect { source: sqlx::Error::Database(error), .. } => Some(&**error),
            _ => None,
        }
    }

    /// Whether the insert was refused because another job claims its key.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Error::Rejected(_))
    }

    /// Whether the same call may succeed when tried again: after a serialization failure, a deadlock, a lost
    /// connection, a full pool, a full queue, a lock timeout, a session that was ended for its idle transaction, on a
    /// server that takes no writes, as during a failover, or at the new place of a queue that was moved.
    ///
    /// After a serialization failure or a lost connection, try again with a new transaction.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Busy { .. } | Error::QueueFull { .. } | Error::PlaceDown { .. } | Error::PlaceMoved { .. } => true,
            _ if self.by_server().is_some() => self.by_server().and_then(DatabaseError::code).is_some_and(|code| {
                // Serialization failure, deadlock, lock timeout, read-only transaction, idle and long transaction, and the
                // classes of connection trouble, resource shortage and operator intervention.
                matches!(&*code, "40001" | "40P01" | "55P03" | "25006" | "25P03" | "25P04")
                    || ["08", "53", "57"].contains(&&code[..2])
            }),
            Error::Database(error) | Error::Connect { source: error, .. } => {
                matches!(error, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed)
            }
            _ => false,
        }
    }

    /// Whether the database does not answer, or refuses every statement.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            Error::Database(error) | Error::Connect { source: error, .. } => {
                self.is_of_server()
                    || matches!(
                        error,
                        sqlx::Error::Io(_)
                            | sqlx::Error::PoolTimedOut
                            | sqlx::Error::PoolClosed
                            | sqlx::Error::WorkerCrashed
                            | sqlx::Error::Tls(_)
                    )
            }
            _ => false,
        }
    }

    /// Whether a table or a schema does not exist.
    pub(crate) fn is_undefined(&self) -> bool {
        self.by_server().and_then(DatabaseError::code).is_some_and(|code| matches!(&*code, "42P01" | "3F000"))
    }

    /// Whether a statement met a row newer than its snapshot, which READ COMMITTED would have read again.
    pub(crate) fn is_serialization_failure(&self) -> bool {
        matches!(self, Error::Database(sqlx::Error::Database(error)) if error.code().as_deref() == Some("40001"))
    }

    /// Whether a statement timed out waiting for a lock.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        matches!(self, Error::Database(sqlx::Error::Database(error)) if error.code().as_deref() == Some("55P03"))
    }

    /// Whether a statement took longer than its timeout, such as [`Call::timeout`](crate::Call::timeout), or was
    /// cancelled by another session.
    #[must_use]
    pub fn is_statement_timeout(&self) -> bool {
        matches!(self, Error::Database(sqlx::Error::Database(error)) if error.code().as_deref() == Some("57014"))
    }

    /// Whether the server's queue of notifications is full, because a session listens in a transaction that it leaves
    /// open. The code stands for other limits as well. The message can be in any language, but contains the command.
    pub(crate) fn is_notify_queue_full(&self) -> bool {
        let Error::Database(sqlx::Error::Database(error)) = self else { return false };
        error.code().as_deref() == Some("54000") && error.message().contains("NOTIFY")
    }

    /// Whether the server refuses every statement on this connection: it starts, stops, lacks a resource, or takes no
    /// writes, as a primary that became a standby.
    pub(crate) fn is_of_server(&self) -> bool {
        const CLASSES: [&str; 7] = ["08", "25", "28", "3D", "53", "57P", "F0"];
        let code = self.by_server().and_then(DatabaseError::code);
        code.is_some_and(|code| CLASSES.iter().any(|class| code.starts_with(class)))
    }

    /// Whether the server may accept on a new connection what it refuses on this one. It refuses everything on this one, or
    /// the session caches a plan, a statement or an id that no longer exists: the plan of a statement whose tables were made
    /// anew (class 0A), a statement, a cursor or a transaction that is gone (24, 26, 34), the ids of tables, functions, types
    /// and roles (42, XX).
    pub(crate) fn is_of_session(&self) -> bool {
        const CLASSES: [&str; 6] = ["0A", "24", "26", "34", "42", "XX"];
        let code = self.by_server().and_then(DatabaseError::code);
        self.is_of_server() || code.is_some_and(|code| CLASSES.iter().any(|class| code.starts_with(class)))
    }

    /// Whether a pooler mixed up the prepared statements of its clients.
    #[must_use]
    pub fn is_mix_up(&self) -> bool {
        matches!(self, Error::Database(sqlx::Error::Database(error)) if is_mix_up(&**error))
    }

    /// Whether a result was dropped because it came from an attempt that is over.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self, Error::Stale { .. })
    }
}
