//! Sending a batch: the statement that fits it, and an answer for everybody.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::time::Duration;

use sqlx::PgConnection;

use super::{Reply, Single};
use crate::client::Client;
use crate::client::insert_many::{insert_rows, insert_shared, look};
use crate::client::outlook::Keys;
use crate::client::prepare::fold;
use crate::error::{Error, Result};
use crate::job::Inserted;
use crate::store::{self, Entered, Look};

/// How long a batch waits for a key of somebody's open transaction before each goes alone.
const PATIENCE: Duration = Duration::from_millis(5);

/// Sends a batch and answers everybody. `false`: the connection should be looked at.
pub(super) async fn send(client: &Client, connection: &mut PgConnection, mut batch: Vec<Single>) -> bool {
    let is_plain = batch.iter().all(|single| single.row.claim.is_none());
    if is_plain && batch.len() == 1 {
        // It meets no key, so it waits for nobody and holds up nobody.
        let Some(single) = batch.pop() else { return true };
        return single.send(client, connection).await;
    }
    let keys = if is_plain { Keys::Free } else { client.outlook().keys(batch.len()) };
    if keys == Keys::Free {
        match enter(client, connection, &batch, is_plain).await {
            Ok(Some(entered)) => {
                batch.into_iter().zip(entered).for_each(|(single, entered)| single.enter(entered));
                return true;
            }
            Ok(None) => {}
            Err(error) => return refused(client, batch, &error),
        }
    }
    if keys == Keys::Held {
        match meet(client, connection, &batch).await {
            Ok(Some(answers)) => {
                batch.into_iter().zip(answers).for_each(|(single, met)| single.answer(Ok(met)));
                return true;
            }
            Ok(None) => {}
            // It has done nothing, and the sure way may be open.
            Err(error) if did_nothing(&error) => client.outlook().looked_in_vain(),
            Err(error) => return refused(client, batch, &error),
        }
    }
    let rows = batch.iter().map(|single| single.row.clone()).collect();
    let inserted = insert_shared(client, connection, fold(rows, false), PATIENCE).await;
    match inserted {
        Ok(inserted) => {
            let is_duplicate = |inserted: &&Option<Inserted>| inserted.as_ref().is_some_and(|i| i.duplicate);
            client.outlook().note(keyed(&batch), inserted.iter().filter(is_duplicate).count());
            for (single, inserted) in batch.into_iter().zip(inserted) {
                match inserted {
                    Some(inserted) => single.answer(Ok(inserted)),
                    None => drop(tokio::spawn(alone(client.clone(), single))),
                }
            }
            true
        }
        Err(error) => refused(client, batch, &error),
    }
}

/// How many can meet somebody.
fn keyed(batch: &[Single]) -> usize {
    batch.iter().filter(|single| single.row.claim.is_some()).count()
}

/// Inserts a batch that probably meets nobody. `None`: the index alone cannot tell what becomes of all.
async fn enter(
    client: &Client,
    connection: &mut PgConnection,
    batch: &[Single],
    is_plain: bool,
) -> Result<Option<Vec<Entered>>> {
    let statements = client.statements();
    let rows: Vec<_> = batch.iter().map(|single| &single.row).collect();
    if is_plain {
        return store::insert_plain(connection, statements, &rows).await.map(Some);
    }
    let mut keys = HashSet::with_capacity(rows.len());
    let differ = rows.iter().filter_map(|row| row.claim.as_ref()).all(|claim| keys.insert(claim.key.as_str()));
    if !differ || !store::index_decides(rows.iter().copied()) {
        return Ok(None);
    }
    let entered = store::insert_new(connection, statements, rows, Some(PATIENCE), Look::First).await;
    client.outlook().tried(keyed(batch), matches!(entered, Ok(Some(_))));
    Ok(entered?.map(|entered| vec![entered; batch.len()]))
}

/// Looks for the holders of rows that are probably all duplicates. `None`: not all are.
async fn meet(client: &Client, connection: &mut PgConnection, batch: &[Single]) -> Result<Option<Vec<Inserted>>> {
    let keys: Option<Vec<_>> =
        batch.iter().map(|single| single.row.claim.as_ref().map(|claim| claim.key.as_str())).collect();
    let Some(keys) = keys else { return Ok(None) };
    look(client, connection, &keys).await
}

/// What becomes of a batch that the database did not take. `false`: the connection should be looked at.
fn refused(client: &Client, batch: Vec<Single>, error: &Error) -> bool {
    if !did_nothing(error) {
        batch.into_iter().for_each(|single| single.answer(Err(alike(error))));
        return false;
    }
    for single in batch {
        tokio::spawn(alone(client.clone(), single));
    }
    matches!(error, Error::Busy { .. }) || error.is_lock_timeout()
}

/// Sends an insert that did not get through with others.
async fn alone(client: Client, single: Single) {
    match client.connection().await {
        Ok(mut connection) => drop(single.send(&client, &mut connection).await),
        Err(error) => single.answer(Err(error)),
    }
}

impl Single {
    /// Sends it alone, with all the time in the world. `false`: the connection should be looked at.
    async fn send(self, client: &Client, connection: &mut PgConnection) -> bool {
        let Self { row, answer, .. } = self;
        let inserted = insert_rows(client, connection, fold(vec![row], false), None).await;
        let is_well = inserted.is_ok();
        let inserted = inserted.and_then(|mut inserted| inserted.pop().ok_or_else(|| sqlx::Error::RowNotFound.into()));
        drop(answer.send(Reply::Answer(inserted)));
        is_well
    }

    /// Tells the caller that its job is in.
    fn enter(self, entered: Entered) {
        let job = self.row.into_job(entered);
        drop(self.answer.send(Reply::Answer(Ok(Inserted::of_new(job)))));
    }

    /// Answers the caller, if it is still there.
    pub(super) fn answer(self, inserted: Result<Inserted>) {
        drop(self.answer.send(Reply::Answer(inserted)));
    }
}

/// Whether the database said no, so that nothing of the statement counts. What a pooler says of a lost
/// connection, or a server that is shutting down, leaves that open.
fn did_nothing(error: &Error) -> bool {
    match error {
        Error::Busy { .. } => true,
        Error::Database(sqlx::Error::Database(error)) => {
            !error.code().is_some_and(|code| code.starts_with("08") || code.starts_with("57P"))
        }
        _ => false,
    }
}

/// The same error for one more caller: most cannot be cloned. It
/// [is retryable](Error::is_retryable) if the error is.
pub(super) fn alike(error: &Error) -> Error {
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

    /// What a server says, with this code.
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
    fn whether_an_error_is_worth_another_try_is_the_same_for_all_who_share_it() {
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
            let alike = alike(&error);
            assert_eq!((error.is_retryable(), alike.is_retryable()), (is_retryable, is_retryable), "{error}: {alike}");
            if matches!(error, Error::Database(sqlx::Error::Database(_))) {
                assert!(alike.to_string().contains("as the server says"), "{alike}");
            }
        }
    }
}
