//! The gauges of queues, which are read from the database.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use uniqueue::metrics::{AVAILABLE_JOBS, OLDEST_AVAILABLE_AGE};
use uniqueue::{QueueName, Result};

use crate::Admin;

/// The queues that have gauges. A queue that is not listed any more has no jobs.
static KNOWN: Mutex<BTreeSet<QueueName>> = Mutex::new(BTreeSet::new());

impl Admin<'_> {
    /// Sets the gauges `uniqueue_available_jobs` and `uniqueue_oldest_available_age_seconds` of each queue, by one look-up
    /// as [`queues`](Self::queues). Call it every fifteen seconds or so, in one process of the application. Needs the feature
    /// `metrics`.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use uniqueue_admin::Admin;
    /// # async fn run(client: uniqueue::Client) {
    /// tokio::spawn(async move {
    ///     loop {
    ///         if let Err(error) = Admin::new(&client).record_queue_metrics().await {
    ///             eprintln!("the queues could not be measured: {error}");
    ///         }
    ///         tokio::time::sleep(Duration::from_secs(15)).await;
    ///     }
    /// });
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Database`](uniqueue::Error::Database). The gauges keep their last values.
    pub async fn record_queue_metrics(self) -> Result<()> {
        let queues = self.queues().await?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = std::mem::take(&mut *known);
        for queue in queues {
            let name = queue.settings.name;
            let age = queue.oldest_available_age.unwrap_or_default();
            set(&name, queue.available.counted() as f64, age.as_secs_f64());
            gone.remove(&name);
            known.insert(name);
        }
        for name in gone {
            set(&name, 0.0, 0.0);
        }
        Ok(())
    }
}

fn set(queue: &QueueName, available: f64, age: f64) {
    metrics::gauge!(AVAILABLE_JOBS, "queue" => queue.to_string()).set(available);
    metrics::gauge!(OLDEST_AVAILABLE_AGE, "queue" => queue.to_string()).set(age);
}
