//! Listing groups.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use super::look_up::{Source, look_up_setters};
use super::{Client, Request};
use crate::error::Result;
use crate::ident::QueueName;
use crate::store;
use crate::watch::GroupInfo;

/// A list of groups, to be awaited. Made by [`Client::groups`].
///
/// # Errors
///
/// [`Error::InvalidName`](crate::Error::InvalidName) for an invalid queue name,
/// [`Error::Database`](crate::Error::Database).
#[derive(Debug)]
#[must_use = "a list is not read until it is awaited"]
pub struct Groups<'a> {
    client: &'a Client,
    source: Source<'a>,
    queue: Option<String>,
    limit: u32,
}

impl<'a> Groups<'a> {
    /// Lists the groups of one queue. Default: of all queues.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// The most groups that are listed. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    look_up_setters!();
}

impl<'a> IntoFuture for Groups<'a> {
    type Output = Result<Vec<GroupInfo>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, source, queue, limit } = self;
        let look_up = Request::on(client, source, move |client, connection| {
            Box::pin(async move {
                let queue = queue.map(QueueName::new).transpose()?;
                store::list_groups(connection, client.statements(), queue.as_ref(), limit).await
            })
        });
        look_up.into_future()
    }
}

impl Client {
    /// Lists groups that have available or running jobs, each with its limit, its first job and what holds that up. Those
    /// that are held up come first, the longest first. As the view `group_status`, and read by index.
    pub fn groups(&self) -> Groups<'_> {
        Groups { client: self, source: Source::default(), queue: None, limit: 100 }
    }
}
