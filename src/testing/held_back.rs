//! Whether a rate or a hold lets no job start now.

use std::time::Duration;

use crate::client::Client;
use crate::store;
use crate::words::ident::QueueName;

/// For [`assert_held_back!`](crate::assert_held_back): how long a queue, or a group of it, starts no job. `Err`: a text
/// that says what is so instead.
#[doc(hidden)]
pub async fn check_held_back(source: &Client, queue: &str, group: Option<&str>) -> Result<Duration, String> {
    let what = match group {
        Some(group) => format!("group {group} of queue {queue}"),
        None => format!("queue {queue}"),
    };
    let failed = |error: crate::Error| format!("{what} cannot be read: {error}");
    let name = QueueName::new(queue).map_err(failed)?;
    let mut connection = source.connection().await.map_err(failed)?;
    let next_in = store::held_back(&mut connection, source.statements(), &name, group).await.map_err(failed)?;
    if let Some(next_in) = next_in {
        return Ok(next_in);
    }
    drop(connection);
    let settings = source.queue(queue).settings().await.map_err(failed)?;
    let rate = settings.rate.map_or_else(|| "no rate".to_owned(), |rate| format!("a rate of {rate}"));
    let group_rate = settings.group_rate.map(|rate| format!(", and one of {rate} for each group")).unwrap_or_default();
    Err(format!("{what} is not held back: a job may start now. The queue has {rate}{group_rate}"))
}
