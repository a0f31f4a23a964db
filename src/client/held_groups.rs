//! Listing groups that are held.

use super::{Call, Client};
use crate::store;
use crate::words::ident::QueueName;
use crate::words::overview::HeldGroup;

/// A list of held groups, to be awaited. Made by [`Client::held_groups`].
///
/// # Errors
///
/// [`Error::InvalidName`](crate::Error::InvalidName) for an invalid queue name,
/// [`Error::Database`](crate::Error::Database).
pub type HeldGroups<'a> = Call<'a, Vec<HeldGroup>, HeldGroupsQuery>;

/// Which held groups are listed.
#[derive(Debug)]
pub struct HeldGroupsQuery {
    queue: Option<String>,
    /// The only group to list.
    only: Option<String>,
    limit: u32,
}

impl HeldGroups<'_> {
    /// Lists the held groups of one queue. Default: of all queues.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.queue = Some(queue.into());
        self
    }

    /// Lists this group of a queue only, or none where it is not held. It is found by index among any number of groups.
    pub fn of(mut self, queue: impl Into<String>, group: impl Into<String>) -> Self {
        self.options.only = Some(group.into());
        self.queue(queue)
    }

    /// The most groups that are listed. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.options.limit = limit;
        self
    }
}

impl Client {
    /// Lists the groups that are held now, by their queues and keys, also those without jobs. A group is held by
    /// [`Queue::hold_group`](crate::Queue::hold_group) or by a worker
    /// ([`Outcome::hold_group`](crate::Outcome::hold_group)).
    ///
    /// ```no_run
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// for held in client.held_groups().queue("emails").await? {
    ///     client.queue(held.queue.as_str()).resume_group(held.group).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A queue whose groups have a rate has a row for each group that started a job lately, and the list reads them all.
    pub fn held_groups(&self) -> HeldGroups<'_> {
        let query = HeldGroupsQuery { queue: None, only: None, limit: 100 };
        Call::with(self, query, |client, connection, query| {
            Box::pin(async move {
                let HeldGroupsQuery { queue, only, limit } = query;
                let queue = queue.map(QueueName::new).transpose()?;
                store::held_groups_list(connection, client.statements(), queue.as_ref(), only.as_deref(), limit).await
            })
        })
    }
}
