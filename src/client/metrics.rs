//! Recording what only the database knows.

use super::Client;
use crate::error::Result;
use crate::metrics;

impl Client {
    /// Sets the gauges `uniqueue_available_jobs` and `uniqueue_oldest_available_age_seconds` of each queue, by one look-up
    /// as [`Client::queues`]. Call it every fifteen seconds or so, in one process of the application. Needs the feature
    /// `metrics`.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn run(client: uniqueue::Client) {
    /// tokio::spawn(async move {
    ///     loop {
    ///         if let Err(error) = client.record_queue_metrics().await {
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
    /// [`Error::Database`](crate::Error::Database). The gauges keep their last values.
    pub async fn record_queue_metrics(&self) -> Result<()> {
        metrics::record_queues(&self.queues().await?);
        Ok(())
    }
}
