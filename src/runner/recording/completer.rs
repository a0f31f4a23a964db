//! The completer: records results in batches. While one batch is on its way, the next gathers. A lone result is sent at
//! once, unless many came just before: then it waits 2 ms for others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use uuid::Uuid;

use super::result::{Ended, split_by_size};
use super::sending::record;
use crate::runner::shared::Shared;
use crate::store::EndStatement;

/// The most results in one statement.
const MAX_BATCH: usize = 2_000;

/// After a batch of this many results more are expected soon.
const CROWD: usize = 32;

/// This many results do not wait for others: their share of one statement is small enough.
const ENOUGH: usize = 1_000;

/// How long results wait for others after a crowd.
const GATHERING: Duration = Duration::from_millis(2);

/// Records results until the runner says that none will come any more.
pub(in crate::runner) async fn complete(shared: Arc<Shared>, mut results: mpsc::UnboundedReceiver<Ended>) {
    let drained = &shared.signals.drained;
    let mut gathered = Vec::with_capacity(MAX_BATCH);
    let mut latest = 0;
    loop {
        if latest >= CROWD && results.len() < ENOUGH {
            tokio::select! {
                () = tokio::time::sleep(GATHERING) => {}
                () = drained.cancelled() => {}
            }
        }
        tokio::select! {
            // In this order, so that what was sent before the end is recorded.
            biased;
            _ = results.recv_many(&mut gathered, MAX_BATCH) => {}
            () = drained.cancelled() => return,
        }
        latest = gathered.len();
        // A lease that was lost leaves results under two ids for a moment. Each way to end has a statement of its own.
        let mut batches: BTreeMap<(Uuid, EndStatement), Vec<Ended>> = BTreeMap::new();
        for ended in gathered.drain(..) {
            batches.entry((ended.lease.id, ended.result.ending())).or_default().push(ended);
        }
        for batch in batches.into_values().flat_map(split_by_size) {
            record(&shared, batch).await;
        }
    }
}
