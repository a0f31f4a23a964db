//! Keys and their holders: a list, and the history of one key.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use super::look_up::{Source, look_up_setters};
use super::{Client, Request};
use crate::error::Result;
use crate::job::JobRow;
use crate::store::{self, ClaimFilter};
use crate::unique::KeyHolder;
use crate::waiting::WaitingInsert;

/// The most jobs in the history of a key.
const HISTORY: u32 = 50;

/// A list of claimed keys, to be awaited. Made by [`Client::claims`].
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database).
#[derive(Debug)]
#[must_use = "a list is not read until it is awaited"]
pub struct Claims<'a> {
    client: &'a Client,
    source: Source<'a>,
    filter: ClaimFilter,
}

impl<'a> Claims<'a> {
    /// Only holders of this kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.filter.kind = Some(kind.into());
        self
    }

    /// Only holders in this queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.filter.queue = Some(queue.into());
        self
    }

    /// Only keys that begin with this text.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.filter.prefix = Some(prefix.into());
        self
    }

    /// Only this key and later ones. Ignored where there is a [`prefix`](Self::prefix).
    pub fn from(mut self, unique_key: impl Into<String>) -> Self {
        self.filter.from = Some(unique_key.into());
        self
    }

    /// Only keys after this one: for the next page, the last key of the page before.
    pub fn after(mut self, unique_key: impl Into<String>) -> Self {
        self.filter.after = Some(unique_key.into());
        self
    }

    /// The most keys that are listed. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.filter.limit = limit;
        self
    }

    look_up_setters!();
}

impl<'a> IntoFuture for Claims<'a> {
    type Output = Result<Vec<KeyHolder>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, source, filter } = self;
        let look_up = Request::on(client, source, move |client, connection| {
            Box::pin(async move { store::list_claims(connection, client.statements(), &filter).await })
        });
        look_up.into_future()
    }
}

impl Client {
    /// Lists the keys that are claimed now, in the order of their bytes, with the jobs that claim them.
    ///
    /// A page is read from the index of keys, and takes equally long on a table of any size. With a kind or a queue,
    /// claims are read until the page is full.
    pub fn claims(&self) -> Claims<'_> {
        Claims { client: self, source: Source::default(), filter: ClaimFilter { limit: 100, ..ClaimFilter::default() } }
    }

    /// Lists the jobs that have a unique key, the youngest first: the one that claims it, and up to fifty among the
    /// `among` last jobs of all kinds. Only claimed keys are in an index. Reading 100,000 jobs takes some tenths of a
    /// second.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn key_history(&self, unique_key: &str, among: u32) -> Request<'_, Vec<JobRow>> {
        let key = unique_key.to_owned();
        Request::new(self, move |client, connection| {
            Box::pin(async move { store::key_history(connection, client.statements(), &key, among, HISTORY).await })
        })
    }

    /// Lists the inserts that wait for other transactions, with these transactions: the longest wait first, a thousand
    /// at most. As the view `waiting_insert`.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn waiting_inserts(&self) -> Request<'_, Vec<WaitingInsert>> {
        Request::new(self, |client, connection| Box::pin(store::waiting_inserts(connection, client.statements())))
    }
}
