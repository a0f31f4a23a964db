//! One question, with its options.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::PgConnection;
use uniqueue::{Call, Client, Result};

use crate::statement::{Arguments, rows};

/// A question with options, to be awaited. Made by methods such as [`Admin::stats`](crate::Admin::stats). What can be set depends on
/// the answer.
///
/// # Errors
///
/// [`Error::Database`](uniqueue::Error::Database), and the errors of the method that made it.
#[derive(Debug)]
#[must_use = "a question is not asked until it is awaited"]
pub struct Ask<'a, T> {
    client: &'a Client,
    statement: &'static str,
    arguments: Arguments,
    /// How many statements it sends at most.
    statements: u32,
    answer: Answer<T>,
    connection: Option<&'a mut PgConnection>,
    timeout: Option<Duration>,
}

/// A page of a list, to be awaited. Made by methods such as [`Admin::change_log`](crate::Admin::change_log).
pub type List<'a, T> = Ask<'a, Vec<T>>;

pub(crate) type AnswerFuture<'c, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'c>>;

type Answer<T> = for<'c> fn(&'c Client, &'c mut PgConnection, &'static str, Arguments) -> AnswerFuture<'c, T>;

impl<'a, T> Ask<'a, T> {
    /// An answer that is made from a statement's rows, of this many statements at most.
    pub(crate) fn made_by(client: &'a Client, statement: &'static str, statements: u32, answer: Answer<T>) -> Self {
        let arguments = Arguments::new();
        Self { client, statement, arguments, statements, answer, connection: None, timeout: None }
    }

    /// Sets an argument of the statement.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.arguments.insert(name.to_owned(), value.into());
        self
    }

    /// Sets a length of time, in seconds.
    pub(crate) fn lasting(self, name: &str, length: Duration) -> Self {
        self.with(name, length.as_secs_f64())
    }

    /// Reads in the caller's own transaction, or on any other connection of the caller's.
    pub fn tx(self, connection: &'a mut PgConnection) -> Self {
        Self { connection: Some(connection), ..self }
    }

    /// How long each statement may take, as [`Call::timeout`].
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }
}

impl<'a, T: DeserializeOwned + Send + Unpin + 'static> List<'a, T> {
    pub(crate) fn new(client: &'a Client, statement: &'static str) -> Self {
        Self::all(client, statement).limit(100)
    }

    /// A list of all rows.
    pub(crate) fn all(client: &'a Client, statement: &'static str) -> Self {
        Self::made_by(client, statement, 1, |client, connection, statement, arguments| {
            Box::pin(async move { rows(client, connection, statement, &arguments).await })
        })
    }

    /// The most rows on the page. Default: 100.
    pub fn limit(self, limit: u32) -> Self {
        self.with("limit", limit)
    }
}

impl<'a, T: Send + 'static> IntoFuture for Ask<'a, T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, statement, arguments, statements, answer, connection, timeout } = self;
        let mut call = Call::new(client, move |client, connection| answer(client, connection, statement, arguments))
            .of_statements(statements);
        if let Some(timeout) = timeout {
            call = call.timeout(timeout);
        }
        match connection {
            Some(connection) => call.tx(connection).into_future(),
            None => call.into_future(),
        }
    }
}
