//! The task that asks the database for all waits of one client.
//!
//! Invariants:
//! - While a wait is registered, the task runs, or its runtime has just shut down. Then the waits register again, each on a
//!   runtime of its own.
//! - The task ends in the moment in which it sees that no wait is registered.
//!
//! Failures: a question that fails, or has no answer in time, is asked again.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::client::connections::time_limit;
use crate::client::{Client, Events};
use crate::error::Result;
use crate::words::event::{Event, Happened};
use crate::words::ident::JobId;
use crate::words::job::JobRow;
use crate::words::wait_result::Waited;

/// The wait before the second question. It doubles with each question, up to the longest.
const FIRST_INTERVAL: Duration = Duration::from_millis(25);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// A connection that does not answer for this long is replaced.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    /// Waits until a job is final or gone.
    pub(super) async fn until_final(&self, id: JobId) -> Waited {
        loop {
            // An error: the runtime of the task shut down.
            if let Ok(waited) = self.add_waiter(id).await {
                return waited;
            }
        }
    }

    fn add_waiter(&self, id: JobId) -> oneshot::Receiver<Waited> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.waiters().state();
        state.waiting.entry(id).or_default().push(sender);
        let starts = !std::mem::replace(&mut state.is_asking, true);
        drop(state);
        if starts {
            tokio::spawn(Asker { client: self.clone(), is_over: false }.run());
        } else {
            self.waiters().joined.notify_one();
        }
        receiver
    }
}

/// The task that asks.
struct Asker {
    client: Client,
    is_over: bool,
}

impl Asker {
    async fn run(mut self) {
        let mut events = self.client.events();
        let mut interval = FIRST_INTERVAL;
        while let Some(ids) = self.waited_for() {
            match final_jobs(&self.client, &ids).await {
                Ok(jobs) => self.answer(jobs),
                Err(error) => tracing::debug!(%error, "could not ask which jobs are final"),
            }
            tokio::select! {
                () = tokio::time::sleep(interval) => interval = (interval * 2).min(LONGEST_INTERVAL),
                () = self.client.waiters().joined.notified() => interval = FIRST_INTERVAL,
                () = self.ended_here(&mut events) => {}
            }
        }
    }

    /// The jobs that are waited for. `None`: there is none, and the task is over.
    fn waited_for(&mut self) -> Option<Vec<uuid::Uuid>> {
        let mut state = self.client.waiters().state();
        state.waiting.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        if state.waiting.is_empty() {
            state.is_asking = false;
            self.is_over = true;
            return None;
        }
        Some(state.waiting.keys().map(|id| id.as_uuid()).collect())
    }

    fn answer(&self, jobs: Vec<(JobId, Option<JobRow>)>) {
        let mut state = self.client.waiters().state();
        for (id, job) in jobs {
            let waited = job.map_or(Waited::Gone, |job| Waited::Final(Box::new(job)));
            for sender in state.waiting.remove(&id).unwrap_or_default() {
                // An error: the wait has ended.
                let _ = sender.send(waited.clone());
            }
        }
    }

    /// Waits for the event that ends a job that is waited for.
    async fn ended_here(&self, events: &mut Events) {
        loop {
            match events.recv().await {
                Some(event) if is_end(&event) && self.client.waiters().state().waiting.contains_key(&event.id) => {
                    return;
                }
                Some(_) => {}
                // The task holds a client, so the events do not end before it.
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.client.waiters().state();
        state.is_asking = false;
        // Each wait learns it by the loss of its sender. A waker may take the lock.
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}

async fn final_jobs(client: &Client, ids: &[uuid::Uuid]) -> Result<Vec<(JobId, Option<JobRow>)>> {
    let mut connection = client.connection().await?;
    let asking = client.store(&mut connection).final_jobs(ids);
    let jobs = time_limit::within(ANSWER_TIMEOUT, asking).await;
    connection.settle(jobs)
}

const fn is_end(event: &Event) -> bool {
    matches!(event.happened, Happened::Completed | Happened::Cancelled { .. } | Happened::Discarded { .. })
}
