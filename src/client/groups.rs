//! Listing groups.

use super::{Call, Client};
use crate::store::{self, GroupOrder};
use crate::words::group::just_before;
use crate::words::ident::QueueName;
use crate::words::overview::GroupInfo;

/// A list of groups, to be awaited. Made by [`Client::groups`].
///
/// # Errors
///
/// [`Error::InvalidName`](crate::Error::InvalidName) for an invalid queue name,
/// [`Error::Database`](crate::Error::Database).
pub type Groups<'a> = Call<'a, Vec<GroupInfo>, GroupsQuery>;

/// Which groups are listed.
#[derive(Debug)]
pub struct GroupsQuery {
    queue: Option<String>,
    order: GroupOrder,
    /// The only group to list.
    only: Option<String>,
    limit: u32,
}

impl Groups<'_> {
    /// Lists the groups of one queue. Default: of all queues.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.queue = Some(queue.into());
        self
    }

    /// Lists the groups in the order of their queues and keys, so that a long list can be read in pages. Default: those
    /// that are held up come first.
    pub fn by_name(self) -> Self {
        self.after("", "")
    }

    /// Goes on after this group, the last of the page before, in the order of [`by_name`](Self::by_name). A page far down
    /// costs no more than the first.
    pub fn after(mut self, queue: impl Into<String>, group: impl Into<String>) -> Self {
        self.options.order = GroupOrder::Name { after: (queue.into(), group.into()) };
        self
    }

    /// Begins with this group, or with the next one after it, in the order of [`by_name`](Self::by_name).
    pub fn from(self, queue: impl Into<String>, group: &str) -> Self {
        // No key sorts in between.
        self.after(queue, just_before(group))
    }

    /// Lists this group of a queue only, or none where the group has no available and no running job. It is found by index
    /// among any number of groups.
    pub fn of(mut self, queue: impl Into<String>, group: impl Into<String>) -> Self {
        let (queue, group) = (queue.into(), group.into());
        self = self.from(queue.as_str(), &group);
        self.options.only = Some(group);
        self.limit(1).queue(queue)
    }

    /// The most groups that are listed. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.options.limit = limit;
        self
    }
}

impl Client {
    /// Lists groups that have available or running jobs, each with its limit, its first job and what holds that up. Groups
    /// that are held up come first, the longest first: of the 1,000 first ones by queue, priority and key and of the 1,000
    /// first ones that run, or of as many as the limit where that is more. [`Groups::by_name`] reads them all in pages.
    ///
    /// ```no_run
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let mut page = client.groups().by_name().await?;
    /// while let Some(last) = page.last() {
    ///     for group in &page {
    ///         println!("{} {}: {} wait", group.queue, group.group, group.waiting);
    ///     }
    ///     page = client.groups().after(last.queue.as_str(), &last.group).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// As the view `group_status`, and read by index.
    pub fn groups(&self) -> Groups<'_> {
        let query = GroupsQuery { queue: None, order: GroupOrder::HeldUp, only: None, limit: 100 };
        Call::with(self, query, |client, connection, query| {
            Box::pin(async move {
                let GroupsQuery { queue, order, only, limit } = query;
                let queue = queue.map(QueueName::new).transpose()?;
                let mut groups =
                    store::list_groups(connection, client.statements(), queue.as_ref(), &order, limit).await?;
                groups.retain(|group| only.as_ref().is_none_or(|only| group.group == *only));
                Ok(groups)
            })
        })
    }
}
