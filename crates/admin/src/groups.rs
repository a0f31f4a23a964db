//! Groups of queues, and groups that are held.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uniqueue::{JobId, Kind, MAX_KEY_BYTES, QueueName, stored_time};

use crate::{Admin, List, Obstacle};

/// A group of a queue, as [`Admin::groups`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupInfo {
    /// Its queue.
    pub queue: QueueName,
    /// Its key.
    pub group: String,
    /// How many of its jobs run, counted to 1,001.
    pub running: u64,
    /// How many may run at once, as its first job and the queue say. `None`: no limit.
    pub limit: Option<u32>,
    /// How many of its jobs are available, counted to 1,001 at each priority.
    pub waiting: u64,
    /// Its first available job.
    pub head: Option<JobId>,
    /// That job's type name.
    pub head_kind: Option<Kind>,
    /// Since when that job could have run.
    #[serde(with = "stored_time::option")]
    pub head_since: Option<OffsetDateTime>,
    /// The obstacle of the queue or of the group for that job. `None`: there is none, or no job waits. [`Admin::why`] says of
    /// any job all that keeps it.
    pub held_by: Option<Obstacle>,
    /// Until when a hold or a rate lets none of its jobs start. `None`: neither does.
    #[serde(with = "stored_time::option")]
    pub held_until: Option<OffsetDateTime>,
}

/// A group that is held, as [`Admin::held_groups`] lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HeldGroup {
    /// Its queue.
    pub queue: QueueName,
    /// Its key.
    pub group: String,
    /// Until when no job of it is fetched.
    #[serde(with = "stored_time")]
    pub held_until: OffsetDateTime,
}

/// Of one queue or of all, and of one group or of all.
const HELD: &str = "SELECT g.queue, g.group_key AS \"group\", g.held_until
FROM /* schema */queue_group AS g
WHERE g.held_until > statement_timestamp()
    AND ($1::jsonb ->> 'queue' IS NULL OR g.queue = $1::jsonb ->> 'queue')
    AND ($1::jsonb ->> 'group' IS NULL OR g.group_key = $1::jsonb ->> 'group')
ORDER BY g.queue, g.group_key
LIMIT ($1::jsonb ->> 'limit')::bigint";

impl<'a> Admin<'a> {
    /// Lists groups that have available or running jobs, each with its limit, its first job and what holds that up. Groups
    /// that are held up come first, the longest first: of the 1,000 first ones by queue, priority and key and of the 1,000
    /// first ones that run, or of as many as the limit where that is more. [`by_name`](List::by_name) reads them all in pages.
    ///
    /// ```no_run
    /// # use uniqueue_admin::Admin;
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// let admin = Admin::new(&client);
    /// let mut page = admin.groups().by_name().await?;
    /// while let Some(last) = page.last() {
    ///     for group in &page {
    ///         println!("{} {}: {} wait", group.queue, group.group, group.waiting);
    ///     }
    ///     page = admin.groups().after(last.queue.as_str(), &last.group).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// As the view `group_status`, and read by index.
    pub fn groups(self) -> List<'a, GroupInfo> {
        List::new(self.client, include_str!("sql/groups.sql"))
    }

    /// Lists the groups that are held now, by their queues and keys, also those without jobs. A group is held by
    /// [`Queue::hold_group`](uniqueue::Queue::hold_group) or by a worker
    /// ([`Outcome::hold_group`](uniqueue::Outcome::hold_group)).
    ///
    /// ```no_run
    /// # use uniqueue_admin::Admin;
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// for held in Admin::new(&client).held_groups().queue("emails").await? {
    ///     client.queue(held.queue.as_str()).resume_group(held.group).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A queue whose groups have a rate has a row for each group that started a job lately, and the list reads them all.
    pub fn held_groups(self) -> List<'a, HeldGroup> {
        List::new(self.client, HELD)
    }
}

impl List<'_, GroupInfo> {
    /// Lists the groups of one queue. Default: of all queues.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.with("queue", queue.into())
    }

    /// Lists the groups in the order of their queues and keys, so that a long list can be read in pages. Default: those
    /// that are held up come first.
    pub fn by_name(self) -> Self {
        self.after("", "")
    }

    /// Goes on after this group, the last of the page before, in the order of [`by_name`](Self::by_name). A page far down
    /// costs no more than the first.
    pub fn after(self, queue: impl Into<String>, group: impl Into<String>) -> Self {
        self.with("after_queue", queue.into()).with("after_group", group.into())
    }

    /// Begins with this group, or with the next one after it, in the order of [`by_name`](Self::by_name).
    pub fn from(self, queue: impl Into<String>, group: &str) -> Self {
        // No key sorts in between.
        self.after(queue, just_before(group))
    }

    /// Lists this group of a queue only, or none where the group has no available and no running job. It is found by index
    /// among any number of groups.
    pub fn of(self, queue: impl Into<String>, group: impl Into<String>) -> Self {
        let (queue, group) = (queue.into(), group.into());
        self.from(queue.as_str(), &group).with("group", group).limit(1).queue(queue)
    }
}

impl List<'_, HeldGroup> {
    /// Lists the held groups of one queue. Default: of all queues.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.with("queue", queue.into())
    }

    /// Lists this group of a queue only, or none where it is not held. It is found by index among any number of groups.
    pub fn of(self, queue: impl Into<String>, group: impl Into<String>) -> Self {
        self.with("group", group.into()).queue(queue)
    }
}

/// The last key that sorts before this one, byte by byte, as the database compares keys of groups.
fn just_before(key: &str) -> String {
    let mut before = key.to_owned();
    // NUL is in no key, so nothing sorts between a key and the same key with U+0001 behind it.
    let Some(previous) = before.pop().map(|last| (1..u32::from(last)).rev().find_map(char::from_u32)) else {
        return before;
    };
    if let Some(previous) = previous {
        before.push(previous);
        // The greatest characters of four, three, two bytes and of one.
        for greatest in ['\u{10ffff}', '\u{ffff}', '\u{7ff}', '\u{7f}'] {
            while before.len() + greatest.len_utf8() <= MAX_KEY_BYTES {
                before.push(greatest);
            }
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_sorts_between_a_key_and_the_one_just_before_it() {
        for key in ["a", "b\u{1}", "customer:1", "\u{e4}", "x\u{80}", "x\u{e000}", "\u{10ffff}", &"z".repeat(512)] {
            let before = just_before(key);
            assert!(before.as_str() < key && before.len() <= MAX_KEY_BYTES, "{key:?}: {before:?}");
            // The next key by length is too long, or not before the key.
            for next in ["\u{1}", "\u{7f}", "\u{10ffff}"] {
                let next = format!("{before}{next}");
                assert!(next.len() > MAX_KEY_BYTES || next.as_str() >= key, "{key:?}: {next:?}");
            }
        }
        assert_eq!(just_before("b\u{1}"), "b");
    }
}
