//! The connection of a look-up, and the time limit of its statements.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::{PgConnection, Postgres, Transaction};

use super::connection::RequestConnection;
use crate::client::Client;
use crate::error::{AnswerFuture, Error};
use crate::store;

/// Where a look-up is sent, and how long each of its statements may take.
#[derive(Debug, Default)]
pub(in crate::client) struct Source<'a> {
    /// The caller's connection. `None`: the client's pool.
    pub(in crate::client) connection: Option<&'a mut PgConnection>,
    /// `None`: the connection's own `statement_timeout`.
    pub(in crate::client) timeout: Option<Duration>,
}

impl<'a> Source<'a> {
    /// Takes a connection, and sets the time limit on it.
    pub(in crate::client) fn open<'c>(self, client: &'c Client) -> AnswerFuture<'c, LookUp<'a>>
    where
        'a: 'c,
    {
        let Self { connection, timeout } = self;
        let Some(timeout) = timeout else {
            let connecting = client.connection_or(connection);
            return Box::pin(async { connecting.await.map(LookUp::Unlimited) });
        };
        Box::pin(async move {
            Ok(match connection {
                // A transaction ends the setting with itself, also behind a pooler and where the call is dropped.
                None => {
                    let mut transaction = store::begin_look_up(client.pool(), timeout).await?;
                    client.check_place(&mut transaction).await?;
                    LookUp::Transaction(transaction)
                }
                Some(connection) => {
                    client.check_callers_place(connection).await?;
                    let before = client.store(connection).limit_statements(timeout).await?;
                    LookUp::Callers { connection, before }
                }
            })
        })
    }
}

/// The connection of a look-up, until [`LookUp::end`].
pub(in crate::client) enum LookUp<'a> {
    Unlimited(RequestConnection<'a>),
    Transaction(Transaction<'static, Postgres>),
    /// With the caller's own `statement_timeout`.
    Callers {
        connection: &'a mut PgConnection,
        before: String,
    },
}

impl<'a> LookUp<'a> {
    /// Removes the time limit and gives the connection back. `error`: the error of the look-up, which may close the connection.
    pub(in crate::client) fn end<'c>(self, client: &'c Client, error: Option<&'c Error>) -> AnswerFuture<'c, ()>
    where
        'a: 'c,
    {
        Box::pin(async move {
            match self {
                Self::Unlimited(mut connection) => connection.note(error),
                Self::Transaction(transaction) if error.is_none() => transaction.rollback().await?,
                // Its end is sent by the pool.
                Self::Transaction(_) => {}
                Self::Callers { connection, before } => {
                    let restored = client.store(connection).restore_statement_limit(&before).await;
                    // In a transaction that failed nothing can be set, and its rollback restores the setting.
                    if error.is_none() {
                        restored?;
                    }
                }
            }
            Ok(())
        })
    }
}

impl Deref for LookUp<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Unlimited(connection) => connection,
            Self::Transaction(transaction) => transaction,
            Self::Callers { connection, .. } => connection,
        }
    }
}

impl DerefMut for LookUp<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Unlimited(connection) => connection,
            Self::Transaction(transaction) => transaction,
            Self::Callers { connection, .. } => connection,
        }
    }
}
