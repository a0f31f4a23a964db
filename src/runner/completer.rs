//! The completer: records results in batches. While one batch is on its way, the next gathers; a
//! lone result goes at once, but for one that comes after a crowd: it waits 2 ms for others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use uuid::Uuid;

use super::lease::Lease;
use super::recording::{Place, record};
use super::track::Track;
use super::{Shared, weight};
use crate::store::{FinishResult, Verdict};
use crate::worker::Stop;

/// The most results in one statement, unless they are [heavy](weight).
pub(super) const BATCH: usize = 2_000;

/// Results that come this many at a time are worth waiting for others.
const CROWD: usize = 32;

/// Results that need not wait for others: one statement costs each of them next to nothing.
const FULL: usize = 1_000;

/// How long results wait for others where they come in crowds.
const GATHERING: Duration = Duration::from_millis(2);

/// An attempt that ended.
pub(super) struct Ended {
    /// The lease under which the job was fetched.
    pub(super) lease: Arc<Lease>,
    /// What the attempt is in hand by.
    pub(super) stop: Arc<Stop>,
    pub(super) track: Arc<Track>,
    pub(super) result: FinishResult,
    /// Whether the row goes if the attempt completed the job.
    pub(super) is_deleted: bool,
    /// Whether the job may be completed before the database takes this result, and drops it: by the worker, in a
    /// transaction of its own, or by this result, sent before, where only the answer was lost.
    pub(super) may_be_completed: bool,
}

impl Ended {
    /// The statement that records it with the least work.
    pub(super) const fn way(&self) -> Way {
        match self.result.verdict {
            Verdict::Complete { .. } if self.is_deleted => Way::Delete,
            Verdict::Complete { output: None } if self.result.progress.is_none() => Way::Complete,
            _ => Way::Finish,
        }
    }
}

/// How a result is recorded: the job's row goes, only changes its state, or takes more.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Way {
    Delete,
    Complete,
    Finish,
}

/// Records results until the runner says that none will come any more.
pub(super) async fn complete(shared: Arc<Shared>, mut results: mpsc::UnboundedReceiver<Ended>) {
    let mut gathered = Vec::with_capacity(BATCH);
    let mut latest = 0;
    loop {
        if latest >= CROWD && results.len() < FULL {
            tokio::select! {
                () = tokio::time::sleep(GATHERING) => {}
                () = shared.drained.cancelled() => {}
            }
        }
        shared.is_completer_waiting.store(true, Ordering::Release);
        tokio::select! {
            // In this order, so that what was sent before the end is recorded.
            biased;
            _ = results.recv_many(&mut gathered, BATCH) => {}
            () = shared.drained.cancelled() => return,
        }
        shared.is_completer_waiting.store(false, Ordering::Release);
        latest = gathered.len();
        // A lease that was lost leaves results under two ids for a moment. One statement for each
        // way, so that none is sent again for another's sake.
        let mut batches: BTreeMap<(Uuid, Way), Vec<Ended>> = BTreeMap::new();
        for ended in gathered.drain(..) {
            batches.entry((ended.lease.id, ended.way())).or_default().push(ended);
        }
        for batch in batches.into_values().flat_map(weight::parts) {
            record(Arc::clone(&shared), batch, Place::Line).await;
        }
    }
}

/// Records one result, and waits as long as that takes.
#[cfg(feature = "testing")]
pub(super) async fn record_one(shared: Arc<Shared>, ended: Ended) {
    record(shared, vec![ended], Place::Aside).await;
}
