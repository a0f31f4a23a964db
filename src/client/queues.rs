//! Queues: pausing and limiting them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Call, Client};
use crate::store::QueueCall;
use crate::words::ident::QueueName;
use crate::words::queue::{QueueChanges, QueueSettings};

/// The longest hold: 1,000 years.
const LONGEST_HOLD: Duration = Duration::from_secs(365_250 * 86_400);

/// A queue by its name. Made by [`Client::queue`]. Its settings may be changed before it has jobs.
///
/// A change answers with the settings after it. Fetches from a limited queue wait up to 200 ms for a transaction that has changed the
/// queue and is still open, so commit soon.
///
/// # Errors
///
/// [`Error::InvalidName`](crate::Error::InvalidName) for an invalid queue name, [`Error::Database`](crate::Error::Database), also for
/// a value outside its limits.
#[derive(Clone, Copy, Debug)]
#[must_use = "a handle does nothing by itself"]
pub struct Queue<'a> {
    pub(super) client: &'a Client,
    pub(super) name: &'a str,
}

impl<'a> Queue<'a> {
    /// Pauses the queue everywhere: from now on no runner fetches from it. Running jobs finish. A queue that is paused already keeps
    /// the time of its first pause. The queue shows the [actor](Call::actor).
    pub fn pause(self) -> Call<'a, QueueSettings> {
        self.change(QueueCall::PAUSE, json!({ "queue": self.name }))
    }

    /// As [`pause`](Self::pause), and stores why, for `why_waiting` and for people who look at the queue. At most 1,000 bytes. A
    /// queue that is paused already takes the new reason.
    pub fn pause_because(self, reason: impl Into<String>) -> Call<'a, QueueSettings> {
        self.change(QueueCall::PAUSE, json!({ "queue": self.name, "reason": reason.into() }))
    }

    /// Resumes the queue where it is paused or held, and wakes idle runners at once. Holds of its groups stay.
    pub fn resume(self) -> Call<'a, QueueSettings> {
        self.change(QueueCall::RESUME, json!({ "queue": self.name }))
    }

    /// Limits how many of the queue's jobs run at once over all runners: [`QueueChanges::limit`].
    pub fn limit(self, limit: Option<u32>) -> Call<'a, QueueSettings> {
        self.set(QueueChanges::new().limit(limit))
    }

    /// Changes the settings that [`QueueChanges`] has, and leaves the others.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use uniqueue::{Client, QueueChanges, Rate};
    /// # async fn run(client: Client) -> uniqueue::Result<()> {
    /// let tenth = Rate::per(10, Duration::from_secs(1));
    /// client.queue("geocoding").set(QueueChanges::new().rate(Some(tenth)).group_limit(Some(1))).await?;
    /// # Ok(()) }
    /// ```
    pub fn set(self, changes: QueueChanges) -> Call<'a, QueueSettings> {
        let mut document = changes.into_document();
        document.insert("queue".to_owned(), self.name.into());
        self.change(QueueCall::SET, Value::Object(document))
    }

    /// Holds the queue: for so long no runner fetches from it. Running jobs finish. A hold that ends later stays.
    /// [`Queue::resume`] ends it. At most 1,000 years, which longer times become.
    pub fn hold(self, hold_for: Duration) -> Call<'a, QueueSettings> {
        let seconds = hold_for.min(LONGEST_HOLD).as_secs_f64();
        self.change(QueueCall::HOLD, json!({ "queue": self.name, "seconds": seconds }))
    }

    /// Holds a group of the queue: for so long no runner fetches a job of it. Running jobs finish. A hold that ends later
    /// stays. [`Queue::resume_group`] ends it.
    pub fn hold_group(self, group: impl Into<String>, hold_for: Duration) -> Call<'a, ()> {
        let seconds = hold_for.min(LONGEST_HOLD).as_secs_f64();
        let document = json!({ "queue": self.name, "group": group.into(), "seconds": seconds });
        let name = QueueName::new(self.name);
        Call::change(self.client, QueueCall::HOLD_GROUP.verb, document.clone(), move |client, connection| {
            Box::pin(async move {
                name?;
                client.store(connection).change_queue(QueueCall::HOLD_GROUP, &document).await.map(drop)
            })
        })
    }

    /// Ends the hold of a group, and wakes idle runners at once. Returns whether it was held.
    pub fn resume_group(self, group: impl Into<String>) -> Call<'a, bool> {
        let document = json!({ "queue": self.name, "group": group.into() });
        let name = QueueName::new(self.name);
        Call::change(self.client, QueueCall::RESUME_GROUP.verb, document.clone(), move |client, connection| {
            Box::pin(async move {
                name?;
                client.store(connection).change_queue(QueueCall::RESUME_GROUP, &document).await
            })
        })
    }

    /// Returns the queue's settings.
    pub fn settings(self) -> Call<'a, QueueSettings> {
        let name = QueueName::new(self.name);
        Call::new(self.client, move |client, connection| {
            Box::pin(async move { client.store(connection).queue_settings(&name?).await })
        })
    }

    /// Deletes the queue's settings, for a queue whose name was mistyped. Its jobs stay. It is not paused or held, and has no
    /// limit and no rate any more, like a queue without settings. Its
    /// totals of its history begin anew. Returns whether it had settings.
    pub fn remove(self) -> Call<'a, bool> {
        let name = QueueName::new(self.name);
        Call::change(self.client, "remove_queue", json!({ "queue": self.name }), move |client, connection| {
            Box::pin(async move { client.store(connection).remove_queue(&name?).await })
        })
    }

    fn change(self, call: QueueCall, document: Value) -> Call<'a, QueueSettings> {
        let (name, mut arguments) = (QueueName::new(self.name), document.clone());
        Call::change_by(self.client, call.verb, document, move |client, connection, actor| {
            Box::pin(async move {
                let name = name?;
                arguments["actor"] = json!(actor);
                client.store(connection).change_queue(call, &arguments).await?;
                client.store(connection).queue_settings(&name).await
            })
        })
    }
}

impl Client {
    /// A queue by its name: to pause, resume or limit it, or to set its retention.
    ///
    /// ```no_run
    /// # async fn run(client: uniqueue::Client) -> uniqueue::Result<()> {
    /// client.queue("emails").pause().await?;
    /// client.queue("emails").resume().await?;
    /// // At most five calls to that service at once, whatever number of processes.
    /// client.queue("geocoding").limit(Some(5)).await?;
    /// # Ok(()) }
    /// ```
    pub fn queue<'a>(&'a self, name: &'a str) -> Queue<'a> {
        Queue { client: self, name }
    }
}
