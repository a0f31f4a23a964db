//! What jobs report of how far they are, until it is stored.
//!
//! A report replaces the one before, so a job may report as often as it likes. What is new is stored
//! once a second, for all jobs of a runner at once; what is still new when an attempt ends goes along
//! with its result. So nothing is stored after a result, and the last report is never lost, unless the
//! process is.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::ident::JobId;
use crate::store::Report;

/// So much done, of so much: the common form of what a job reports with
/// [`RunningJob::progress`](crate::RunningJob::progress). In JSON `{"done": 3, "total": 10}`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// How much there is to do.
    pub total: u64,
}

impl Progress {
    /// So much done, of so much.
    #[must_use]
    pub const fn of(done: u64, total: u64) -> Self {
        Self { done, total }
    }
}

/// The latest report of every attempt that made one.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    latest: Mutex<HashMap<Reporter, Latest>>,
}

/// A run, as the fence knows it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Reporter {
    pub(crate) worker: Uuid,
    pub(crate) id: JobId,
    pub(crate) run: u32,
}

#[derive(Debug)]
struct Latest {
    progress: Value,
    /// Counts the reports, so that one that comes while another is being stored is not taken for it.
    version: u64,
    stored: u64,
}

/// Reports on their way to the database, sorted by id.
pub(crate) struct Batch {
    pub(crate) reports: Vec<Report>,
    versions: Vec<u64>,
}

impl Reports {
    /// Notes how far an attempt is, unless that `is_over`: what it left running may still talk.
    pub(crate) fn report(&self, reporter: Reporter, is_over: &AtomicBool, progress: Value) {
        let mut latest = self.latest();
        if is_over.load(Ordering::Acquire) {
            return;
        }
        let Some(latest) = latest.get_mut(&reporter) else {
            latest.insert(reporter, Latest { progress, version: 1, stored: 0 });
            return;
        };
        // Saying the same again is worth no write.
        if latest.progress != progress {
            latest.progress = progress;
            latest.version += 1;
        }
    }

    /// What is new of the attempts under this lease. Those of a lost one could not be stored.
    pub(crate) fn new_under(&self, worker: Uuid) -> Batch {
        let latest = self.latest();
        let is_new =
            |(reporter, latest): &(&Reporter, &Latest)| reporter.worker == worker && latest.version > latest.stored;
        let mut new: Vec<_> = latest.iter().filter(is_new).collect();
        new.sort_unstable_by_key(|(reporter, _)| (reporter.id, std::cmp::Reverse(reporter.run)));
        new.dedup_by_key(|(reporter, _)| reporter.id);
        let report = |(reporter, latest): &(&Reporter, &Latest)| Report {
            id: reporter.id,
            run: reporter.run,
            progress: latest.progress.clone(),
        };
        Batch {
            reports: new.iter().map(report).collect(),
            versions: new.iter().map(|(_, latest)| latest.version).collect(),
        }
    }

    /// Notes that these of a batch are stored.
    pub(crate) fn stored(&self, worker: Uuid, batch: &Batch, stored: &[JobId]) {
        let stored: HashSet<_> = stored.iter().collect();
        let mut latest = self.latest();
        for (report, version) in batch.reports.iter().zip(&batch.versions) {
            let reporter = Reporter { worker, id: report.id, run: report.run };
            if let Some(latest) = latest.get_mut(&reporter).filter(|_| stored.contains(&report.id)) {
                latest.stored = latest.stored.max(*version);
            }
        }
    }

    /// What is not known to be stored of an attempt's last report.
    pub(crate) fn unstored(&self, reporter: Reporter) -> Option<Value> {
        let latest = self.latest();
        let latest = latest.get(&reporter).filter(|latest| latest.version > latest.stored)?;
        Some(latest.progress.clone())
    }

    /// The same, of an attempt that `is_over` from now on, and reports no more.
    pub(crate) fn take(&self, reporter: Reporter, is_over: &AtomicBool) -> Option<Value> {
        let mut all = self.latest();
        is_over.store(true, Ordering::Release);
        let latest = all.remove(&reporter)?;
        (latest.version > latest.stored).then_some(latest.progress)
    }

    fn latest(&self) -> MutexGuard<'_, HashMap<Reporter, Latest>> {
        // Nothing panics while it holds the lock.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_latest_report_is_stored_and_one_that_comes_meanwhile_is_not_forgotten() {
        let reports = Reports::default();
        let worker = Uuid::now_v7();
        let (first, second) = (AtomicBool::new(false), AtomicBool::new(false));
        let reporter = |run| Reporter { worker, id: JobId::from(Uuid::nil()), run };
        for n in 0..1000 {
            reports.report(reporter(1), &first, json!(n));
        }
        let batch = reports.new_under(worker);
        assert_eq!(batch.reports.len(), 1);
        assert_eq!(batch.reports[0].progress, json!(999));
        assert!(reports.new_under(Uuid::now_v7()).reports.is_empty());
        // While it is on its way.
        reports.report(reporter(1), &first, json!("more"));
        reports.stored(worker, &batch, &[batch.reports[0].id]);
        assert_eq!(reports.unstored(reporter(1)), Some(json!("more")));
        let batch = reports.new_under(worker);
        reports.stored(worker, &batch, &[]);
        assert_eq!(reports.new_under(worker).reports.len(), 1, "somebody had the row locked");
        reports.stored(worker, &batch, &[batch.reports[0].id]);
        reports.report(reporter(1), &first, json!("more"));
        assert!(reports.new_under(worker).reports.is_empty(), "nothing new");
        assert_eq!(reports.take(reporter(1), &first), None);
        reports.report(reporter(2), &second, json!(1));
        assert_eq!(reports.take(reporter(2), &second), Some(json!(1)));
        assert_eq!(reports.take(reporter(2), &second), None);
        // Something that the work left running.
        reports.report(reporter(2), &second, json!(2));
        assert!(reports.latest().is_empty());
    }
}
