//! Sending inserts that share a statement, and answering each.

use std::io::ErrorKind;
use std::time::Duration;

use super::state::{Reply, SharedInsert};
use crate::client::Client;
use crate::client::connections::pooled_connection::PooledConnection;
use crate::client::insert::batch::{send, send_each, unanswered};
use crate::error::{Error, Result};
use crate::store::InsertBatch;
use crate::words::job::Inserted;

/// How long a shared statement waits for a key of an open transaction before each insert is sent alone.
const MAX_SHARED_WAIT: Duration = Duration::from_millis(5);

/// How often the inserts that a full queue has room for are sent again together, since others take the room meanwhile.
const MAX_TRIES_WHERE_FULL: u32 = 3;

/// Sends a batch and answers every caller. `false`: the connection should be checked.
pub(super) async fn send_shared(
    client: &Client,
    connection: &mut PooledConnection,
    mut inserts: Vec<SharedInsert>,
) -> bool {
    let mut tries = 0;
    let sent = loop {
        // One without a key meets none, so it waits for no other transaction.
        if let Some(insert) = inserts.pop_if(|insert| insert.row.claim.is_none()) {
            if inserts.is_empty() {
                return insert.send(client, connection).await;
            }
            inserts.push(insert);
        }
        let rows = inserts.iter().map(|insert| insert.row.clone()).collect();
        let sent = tokio::select! {
            biased;
            sent = send_each(client, connection, rows, MAX_SHARED_WAIT) => sent,
            () = all_gone(&mut inserts) => return false,
        };
        connection.note(sent.as_ref().err());
        match sent {
            Err(Error::QueueFull { queue, max_waiting, room }) if tries < MAX_TRIES_WHERE_FULL => {
                tries += 1;
                inserts = with_room(client, inserts, &queue, max_waiting, room);
                if inserts.is_empty() {
                    return true;
                }
            }
            sent => break sent,
        }
    };
    match sent {
        Ok(answers) => {
            inserts.into_iter().zip(answers).for_each(|(insert, inserted)| insert.answer(inserted));
            true
        }
        Err(error) if did_nothing(&error) => {
            for insert in inserts {
                tokio::spawn(send_alone(client.clone(), insert));
            }
            matches!(error, Error::Busy { .. } | Error::QueueFull { .. } | Error::WrongPlace { .. })
                || error.is_lock_timeout()
        }
        Err(error) => {
            inserts.into_iter().for_each(|insert| insert.answer(Err(error_for_each(&error))));
            false
        }
    }
}

/// The inserts to send again in one statement, after a full queue refused theirs. Inserts that the queue has no room
/// for are refused. A job with a key may be a duplicate, and one with a time may be scheduled. A full queue refuses neither,
/// so each of them is sent alone.
fn with_room(
    client: &Client,
    inserts: Vec<SharedInsert>,
    full: &str,
    max_waiting: u32,
    mut room: u32,
) -> Vec<SharedInsert> {
    let mut again = Vec::with_capacity(inserts.len());
    for insert in inserts {
        let SharedInsert { row, .. } = &insert;
        let is_of_queue = row.queue.as_str() == full;
        let adds_one = row.claim.is_none() && row.scheduled_at.is_none() && row.delay.is_none() && !row.is_pending;
        if is_of_queue && !adds_one {
            tokio::spawn(send_alone(client.clone(), insert));
        } else if is_of_queue && room == 0 {
            insert.answer(Err(Error::QueueFull { queue: full.to_owned(), max_waiting, room: 0 }));
        } else {
            room -= u32::from(is_of_queue);
            again.push(insert);
        }
    }
    again
}

/// Sends an insert whose shared statement was refused.
async fn send_alone(client: Client, insert: SharedInsert) {
    match client.connection().await {
        Ok(mut connection) => drop(insert.send(&client, &mut connection).await),
        Err(error) => insert.answer(Err(error)),
    }
}

/// Waits until no caller waits any more. Without that, a connection that fell silent would never come back to the pool.
async fn all_gone(inserts: &mut [SharedInsert]) {
    for insert in inserts {
        insert.answer.closed().await;
    }
}

impl SharedInsert {
    /// Sends it alone, without a limit on its wait. `false`: the connection should be checked.
    async fn send(self, client: &Client, connection: &mut PooledConnection) -> bool {
        let Self { row, mut answer } = self;
        let batch = InsertBatch { rows: vec![row], may_exist: false, is_each: false, edges: Vec::new() };
        let inserted = tokio::select! {
            biased;
            inserted = send(client, connection, batch, None, true) => inserted,
            () = answer.closed() => return false,
        };
        connection.note(inserted.as_ref().err());
        let is_well = matches!(inserted, Ok(_) | Err(Error::QueueFull { .. }));
        let inserted = inserted.and_then(|mut inserted| inserted.pop().ok_or_else(unanswered));
        drop(answer.send(Reply::Answer(inserted)));
        is_well
    }

    /// Answers the caller, if it still waits.
    pub(super) fn answer(self, inserted: Result<Inserted>) {
        drop(self.answer.send(Reply::Answer(inserted)));
    }
}

/// Whether the database refused the statement, so that nothing of it counts. An error of a pooler about a lost connection,
/// or of a server that is shutting down, leaves that open.
fn did_nothing(error: &Error) -> bool {
    match error {
        Error::Busy { .. } | Error::QueueFull { .. } | Error::WrongPlace { .. } => true,
        Error::Database(sqlx::Error::Database(error)) => {
            !error.code().is_some_and(|code| code.starts_with("08") || code.starts_with("57P"))
        }
        _ => false,
    }
}

/// The same error for one more caller, since most cannot be cloned. It [is retryable](Error::is_retryable) if the error
/// is.
pub(super) fn error_for_each(error: &Error) -> Error {
    let alike = match error {
        Error::Database(sqlx::Error::PoolTimedOut) => sqlx::Error::PoolTimedOut,
        Error::Database(sqlx::Error::PoolClosed) => sqlx::Error::PoolClosed,
        Error::Database(sqlx::Error::WorkerCrashed) => sqlx::Error::WorkerCrashed,
        Error::Database(sqlx::Error::Io(error)) => {
            sqlx::Error::Io(std::io::Error::new(error.kind(), error.to_string()))
        }
        Error::Database(sqlx::Error::Database(said)) if error.is_retryable() => {
            sqlx::Error::Io(std::io::Error::new(ErrorKind::ConnectionAborted, said.message()))
        }
        Error::Database(sqlx::Error::Database(said)) => sqlx::Error::Protocol(said.message().to_owned()),
        Error::Database(error) => sqlx::Error::Protocol(error.to_string()),
        Error::MapMismatch { place, found } => {
            return Error::MapMismatch { place: place.clone(), found: found.clone() };
        }
        Error::PlaceCopy { place } => return Error::PlaceCopy { place: place.clone() },
        Error::PlaceMoved { subject, to } => {
            return Error::PlaceMoved { subject: subject.clone(), to: to.clone() };
        }
        error => sqlx::Error::Protocol(error.to_string()),
    };
    alike.into()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::fmt;

    use sqlx::error::DatabaseError;

    use super::*;

    /// An error of a server with this code.
    #[derive(Debug)]
    struct Said(&'static str);

    impl fmt::Display for Said {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.message())
        }
    }

    impl std::error::Error for Said {}

    impl DatabaseError for Said {
        fn message(&self) -> &'static str {
            "as the server says"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> sqlx::error::ErrorKind {
            sqlx::error::ErrorKind::Other
        }
    }

    #[test]
    fn an_error_is_as_retryable_for_each_insert_as_for_the_statement() {
        let said = |code| Error::from(sqlx::Error::Database(Box::new(Said(code))));
        let aborted = std::io::Error::from(ErrorKind::ConnectionReset);
        for (error, is_retryable) in [
            (said("57P01"), true),
            (said("08006"), true),
            (said("53300"), true),
            (said("23514"), false),
            (sqlx::Error::WorkerCrashed.into(), true),
            (sqlx::Error::PoolTimedOut.into(), true),
            (sqlx::Error::PoolClosed.into(), false),
            (sqlx::Error::Io(aborted).into(), true),
            (sqlx::Error::RowNotFound.into(), false),
        ] {
            let alike = error_for_each(&error);
            assert_eq!((error.is_retryable(), alike.is_retryable()), (is_retryable, is_retryable), "{error}: {alike}");
            if matches!(error, Error::Database(sqlx::Error::Database(_))) {
                assert!(alike.to_string().contains("as the server says"), "{alike}");
            }
        }
    }
}
