//! Reading the log of changes.

use uuid::Uuid;

use super::{Client, Request};
use crate::change_log::LoggedChange;
use crate::store;

/// A page of the log of changes, to be awaited. Made by [`Client::change_log`].
///
/// # Errors
///
/// [`Error::Database`](crate::Error::Database).
pub type ChangeLog<'a> = Request<'a, Vec<LoggedChange>, ChangeLogQuery>;

/// Which changes a page lists.
#[derive(Debug)]
pub struct ChangeLogQuery {
    actor: Option<String>,
    after: Option<Uuid>,
    limit: u32,
}

impl ChangeLog<'_> {
    /// Only changes of this actor.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.options.actor = Some(actor.into());
        self
    }

    /// Goes on after this change, the last of the page before.
    pub fn after(mut self, id: Uuid) -> Self {
        self.options.after = Some(id);
        self
    }

    /// The most changes on the page. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.options.limit = limit;
        self
    }
}

impl Client {
    /// Lists the changes that were made by hand, the latest first.
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
    /// A change is logged in its own transaction, so the log has it if, and only if, it was committed. A change of jobs, such as
    /// [`Client::cancel`], and [`Client::release_claim`] are logged always, as one row a call, by default as `anonymous`. All other
    /// changes and inserts are logged if they have an actor. A change that changed no job is not logged, and neither is an
    /// insert that found only duplicates. Changes by SQL functions are not logged. Runners delete rows after 90 days.
    pub fn change_log(&self) -> ChangeLog<'_> {
        let query = ChangeLogQuery { actor: None, after: None, limit: 100 };
        Request::with(self, query, |client, connection, query| {
            Box::pin(async move {
                let ChangeLogQuery { actor, after, limit } = query;
                let before = after.unwrap_or(Uuid::max());
                store::list_changes(connection, client.statements(), actor.as_deref(), before, limit).await
            })
        })
    }
}
