//! One page of a list.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::PgConnection;
use uniqueue::{Client, Result};

use crate::statement::{Arguments, ask};

/// A page of a list, to be awaited. Made by methods such as [`Admin::change_log`](crate::Admin::change_log). What can be asked
/// for besides depends on the rows.
///
/// # Errors
///
/// [`Error::Database`](uniqueue::Error::Database).
#[derive(Debug)]
#[must_use = "a list is not read until it is awaited"]
pub struct List<'a, T> {
    client: &'a Client,
    statement: &'static str,
    arguments: Arguments,
    connection: Option<&'a mut PgConnection>,
    timeout: Option<Duration>,
    row: PhantomData<fn() -> T>,
}

impl<'a, T> List<'a, T> {
    pub(crate) fn new(client: &'a Client, statement: &'static str) -> Self {
        let list =
            Self { client, statement, arguments: Arguments::new(), connection: None, timeout: None, row: PhantomData };
        list.limit(100)
    }

    /// Sets an argument of the statement.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.arguments.insert(name.to_owned(), value.into());
        self
    }

    /// The most rows on the page. Default: 100.
    pub fn limit(self, limit: u32) -> Self {
        self.with("limit", limit)
    }

    /// Reads in the caller's own transaction, or on any other connection of the caller's.
    pub fn tx(self, connection: &'a mut PgConnection) -> Self {
        Self { connection: Some(connection), ..self }
    }

    /// How long the statement may take, as [`Call::timeout`](uniqueue::Call::timeout).
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }
}

impl<'a, T: DeserializeOwned + Send + Unpin + 'static> IntoFuture for List<'a, T> {
    type Output = Result<Vec<T>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, statement, arguments, connection, timeout, row: _ } = self;
        let mut call = ask(client, statement, arguments);
        if let Some(timeout) = timeout {
            call = call.timeout(timeout);
        }
        match connection {
            Some(connection) => call.tx(connection).into_future(),
            None => call.into_future(),
        }
    }
}
