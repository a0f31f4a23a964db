//! What a runner tells the database of itself: its host, and the kinds of its workers, so that inserts in other languages make
//! the keys that its own make.

use std::collections::BTreeMap;
use std::fs;
use std::future::IntoFuture;
use std::time::Duration;

use crate::client::Client;
use crate::client::connections::time_limit;
use crate::words::retry::RetryPolicy;
use crate::worker::Registry;

/// Registers the kinds of the workers. Answers with the digest of each definition. `timeout`, `retry_policy`: the runner's own.
///
/// A runner whose role may not register, or whose kinds are locked, starts all the same. It works every job, and only
/// inserts that rely on the registration notice.
pub(in crate::runner) async fn register(
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
    let registering = client.register_kinds(definitions, runner);
    match time_limit::within(time_limit::QUERY_TIMEOUT, registering.into_future()).await {
        Ok(registered) => registered.into_iter().collect(),
        Err(error) => {
            tracing::warn!(%error, "the kinds of the runner's workers are not registered");
            BTreeMap::new()
        }
    }
}

/// The most bytes of the name that are stored.
const MAX_HOST_BYTES: usize = 253;

/// The name of the machine, or of the container. `None` where it is unknown.
pub(in crate::runner) fn host_name() -> Option<String> {
    let from_kernel = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let names = from_kernel
        .into_iter()
        .chain(["HOSTNAME", "COMPUTERNAME"].into_iter().filter_map(|name| std::env::var(name).ok()));
    names.map(|name| beginning(name.trim(), MAX_HOST_BYTES).replace('\0', "")).find(|name| !name.is_empty())
}

/// The beginning of a text of at most this many bytes.
pub(in crate::runner) fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(beginning("aä", 2), "a");
        assert_eq!(beginning("aä", 3), "aä");
    }
}
