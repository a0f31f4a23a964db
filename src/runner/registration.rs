//! Registering the kinds of a runner's workers, so that inserts in other languages make the keys that its own make.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::time::Duration;

use crate::client::{Client, time_limit};
use crate::words::retry::RetryPolicy;
use crate::worker::Registry;

/// Registers the kinds of the workers. Answers with the digest of each definition. `timeout`, `retry_policy`: the runner's own.
///
/// A runner whose role may not register, or whose kinds are locked, starts all the same. It works every job, and only
/// inserts that rely on the registration notice.
pub(super) async fn register(
    client: &Client,
    workers: &Registry,
    runner: &str,
    timeout: Option<Duration>,
    retry_policy: RetryPolicy,
) -> BTreeMap<String, String> {
    let mut definitions = Vec::new();
    for (kind, definition) in workers.definitions(client.defaults(), timeout, retry_policy) {
        match definition {
            Ok(definition) => definitions.push(definition),
            Err(error) => {
                tracing::warn!(job.kind = kind, %error, "the kind is not registered: its options are invalid")
            }
        }
    }
    let registering = client.kinds().register_of_runner(definitions, runner);
    match time_limit::within(time_limit::QUERY_TIMEOUT, registering.into_future()).await {
        Ok(registered) => registered.into_iter().map(|(kind, digest)| (kind.to_string(), digest)).collect(),
        Err(error) => {
            tracing::warn!(%error, "the kinds of the runner's workers are not registered");
            BTreeMap::new()
        }
    }
}
