//! The findings of a comparison of all places. They are renewed only while pages ask for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uniqueue::Places;
use uniqueue_admin::{Finding, diagnose_places};

/// How old findings may be before the places are compared again.
const EVERY: Duration = Duration::from_secs(30);

/// How long a page waits for the first findings.
const FIRST: Duration = Duration::from_secs(1);

/// Findings, and when they were made.
type Found = Option<(Instant, Arc<[Finding]>)>;

/// Compares the places of a map.
pub(crate) struct Across {
    places: Places,
    stop: CancellationToken,
    found: watch::Sender<Found>,
    is_comparing: AtomicBool,
}

impl Across {
    pub(crate) fn new(places: Places, stop: CancellationToken) -> Self {
        Self { places, stop, found: watch::Sender::default(), is_comparing: AtomicBool::new(false) }
    }

    /// The last findings. `None`: the first comparison is not over.
    pub(crate) async fn latest(self: &Arc<Self>) -> Option<Arc<[Finding]>> {
        let mut found = self.found.subscribe();
        let is_old = found.borrow().as_ref().is_none_or(|(at, _)| at.elapsed() > EVERY);
        if is_old && !self.is_comparing.swap(true, Ordering::AcqRel) {
            let across = Arc::clone(self);
            tokio::spawn(async move {
                tokio::select! {
                    findings = diagnose_places(&across.places) => {
                        across.found.send_replace(Some((Instant::now(), findings.into())));
                    }
                    () = across.stop.cancelled() => {}
                }
                across.is_comparing.store(false, Ordering::Release);
            });
        }
        let _ = timeout(FIRST, found.wait_for(Option::is_some)).await;
        found.borrow().as_ref().map(|(_, findings)| Arc::clone(findings))
    }
}
