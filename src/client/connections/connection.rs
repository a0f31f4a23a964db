//! The connection of a request: the caller's, or one of the client's pool.

use std::ops::{Deref, DerefMut};

use sqlx::PgConnection;

use super::pooled_connection::PooledConnection;
use crate::client::Client;
use crate::error::{AnswerFuture, Error};

pub(crate) enum RequestConnection<'a> {
    Callers(&'a mut PgConnection),
    Pool(PooledConnection),
}

impl Client {
    /// The caller's connection if there is one, else one of the pool.
    pub(crate) fn connection_or<'c, 'a: 'c>(
        &'c self,
        callers: Option<&'a mut PgConnection>,
    ) -> AnswerFuture<'c, RequestConnection<'a>> {
        Box::pin(async move {
            Ok(match callers {
                Some(connection) => {
                    self.check_callers_place(connection).await?;
                    RequestConnection::Callers(connection)
                }
                None => RequestConnection::Pool(self.connection().await?),
            })
        })
    }
}

impl RequestConnection<'_> {
    /// As [`PooledConnection::note`].
    pub(crate) fn note(&mut self, error: Option<&Error>) {
        if let Self::Pool(connection) = self {
            connection.note(error);
        }
    }
}

impl Deref for RequestConnection<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Callers(connection) => connection,
            Self::Pool(connection) => connection,
        }
    }
}

impl DerefMut for RequestConnection<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Callers(connection) => connection,
            Self::Pool(connection) => connection,
        }
    }
}
