//! Keys and their holders: a list, and the history of one key.

use super::{Call, Client};
use crate::store::{self, ClaimFilter};
use crate::unique::KeyHolder;
use crate::words::job::JobRow;

/// The most jobs in the history of a key.
const HISTORY: u32 = 50;

/// A list of claimed keys, to be awaited. Made by [`Client::claims`].
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database).
pub type Claims<'a> = Call<'a, Vec<KeyHolder>, ClaimsQuery>;

/// Which claimed keys are listed.
#[derive(Debug)]
pub struct ClaimsQuery(ClaimFilter);

impl Claims<'_> {
    /// Only holders of this kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.options.0.kind = Some(kind.into());
        self
    }

    /// Only holders in this queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.0.queue = Some(queue.into());
        self
    }

    /// Only keys that begin with this text.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.options.0.prefix = Some(prefix.into());
        self
    }

    /// Only this key and later ones.
    pub fn from(mut self, unique_key: impl Into<String>) -> Self {
        self.options.0.from = Some(unique_key.into());
        self
    }

    /// Only keys after this one: for the next page, the last key of the page before.
    pub fn after(mut self, unique_key: impl Into<String>) -> Self {
        self.options.0.after = Some(unique_key.into());
        self
    }

    /// The most keys that are listed. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.options.0.limit = limit;
        self
    }
}

impl Client {
    /// Lists the keys that are claimed now, in the order of their bytes, with the jobs that claim them.
    ///
    /// A page is read from the index of keys, and takes equally long on a table of any size. With a kind or a queue,
    /// claims are read until the page is full.
    pub fn claims(&self) -> Claims<'_> {
        let query = ClaimsQuery(ClaimFilter { limit: 100, ..ClaimFilter::default() });
        Call::with(self, query, |client, connection, ClaimsQuery(filter)| {
            Box::pin(async move { store::list_claims(connection, client.statements(), &filter).await })
        })
    }

    /// Lists the jobs that have a unique key, the youngest first: the one that claims it, and up to fifty among the
    /// `among` last jobs of all kinds. Only claimed keys are in an index. Reading 100,000 jobs takes some tenths of a
    /// second.
    ///
    /// # Errors
    ///
    /// [`Error::Database`](crate::Error::Database).
    pub fn key_history(&self, unique_key: &str, among: u32) -> Call<'_, Vec<JobRow>> {
        let key = unique_key.to_owned();
        Call::new(self, move |client, connection| {
            Box::pin(async move { store::key_history(connection, client.statements(), &key, among, HISTORY).await })
        })
    }
}
