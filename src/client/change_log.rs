//! Reading the log of changes.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use uuid::Uuid;

use super::look_up::{Source, look_up_setters};
use super::{Client, Request};
use crate::change_log::LoggedChange;
use crate::error::Result;
use crate::store;

/// A page of the log of changes, to be awaited. Made by [`Client::change_log`].
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database).
#[derive(Debug)]
#[must_use = "a list is not read until it is awaited"]
pub struct ChangeLog<'a> {
    client: &'a Client,
    source: Source<'a>,
    actor: Option<String>,
    after: Option<Uuid>,
    limit: u32,
}

impl<'a> ChangeLog<'a> {
    /// Only changes of this actor.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Goes on after this change, the last of the page before.
    pub fn after(mut self, id: Uuid) -> Self {
        self.after = Some(id);
        self
    }

    /// The most changes on the page. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    look_up_setters!();
}

impl<'a> IntoFuture for ChangeLog<'a> {
    type Output = Result<Vec<LoggedChange>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, source, actor, after, limit } = self;
        let before = after.unwrap_or(Uuid::max());
        let look_up = Request::on(client, source, move |client, connection| {
            Box::pin(async move {
                store::list_changes(connection, client.statements(), actor.as_deref(), before, limit).await
            })
        });
        look_up.into_future()
    }
}

impl Client {
    /// Lists the changes that were made with the name of an actor, the latest first.
    ///
    /// ```no_run
    /// # use uniqueue::{Client, JobFilter, JobState};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// client.retry(JobFilter::new().states(JobState::Discarded)).actor("anna").await?;
    /// for change in client.change_log().actor("anna").await? {
    ///     println!("{} {} {:?} jobs: {}", change.at, change.verb, change.jobs, change.subject);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A change is logged in its own transaction, so the log has it if, and only if, it was committed. A change without an
    /// actor is not logged and costs nothing. Changes of jobs that changed no job are not logged either, and neither is
    /// an insert that found only duplicates. Runners delete rows after 90 days.
    pub fn change_log(&self) -> ChangeLog<'_> {
        ChangeLog { client: self, source: Source::default(), actor: None, after: None, limit: 100 }
    }
}
