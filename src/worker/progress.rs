//! Progress reports of running jobs, until they are stored.
//!
//! A report replaces the one before, so a job may report often. New reports are stored once a second, for all jobs of a
//! runner at once. A report that is still new when its attempt ends is stored with the result. So no report is stored after
//! a result, and the last report is lost only if the process dies.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::store::Report;
use crate::words::ident::JobId;

/// The part of a job that is done: the common form of a report with
/// [`AnyJob::progress`](crate::AnyJob::progress). In JSON `{"done": 3, "total": 10}`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// How much there is to do.
    pub total: u64,
}

impl Progress {
    /// `done` of `total`.
    #[must_use]
    pub const fn of(done: u64, total: u64) -> Self {
        Self { done, total }
    }
}

/// The latest reports of attempts.
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
    /// Counts the reports, so that a report that comes while another is being stored counts as new.
    version: u64,
    stored: u64,
}

/// Reports to store, sorted by id.
pub(crate) struct ReportBatch {
    pub(crate) reports: Vec<Report>,
    versions: Vec<u64>,
}

impl Reports {
    /// Records a report, unless the attempt `is_over`: tasks that it left running may still report.
    pub(crate) fn report(&self, reporter: Reporter, is_over: &AtomicBool, progress: Value) {
        let mut latest = self.latest();
        if is_over.load(Ordering::Acquire) {
            return;
        }
        let Some(latest) = latest.get_mut(&reporter) else {
            latest.insert(reporter, Latest { progress, version: 1, stored: 0 });
            return;
        };
        // The same report again needs no write.
        if latest.progress != progress {
            latest.progress = progress;
            latest.version += 1;
        }
    }

    /// The new reports of attempts under this lease. Reports under a lost lease could not be stored.
    pub(crate) fn new_under(&self, worker: Uuid) -> ReportBatch {
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
        ReportBatch {
            reports: new.iter().map(report).collect(),
            versions: new.iter().map(|(_, latest)| latest.version).collect(),
        }
    }

    /// Records which reports of a batch are stored.
    pub(crate) fn stored(&self, worker: Uuid, batch: &ReportBatch, stored: &[JobId]) {
        let stored: HashSet<_> = stored.iter().collect();
        let mut latest = self.latest();
        for (report, version) in batch.reports.iter().zip(&batch.versions) {
            let reporter = Reporter { worker, id: report.id, run: report.run };
            if let Some(latest) = latest.get_mut(&reporter).filter(|_| stored.contains(&report.id)) {
                latest.stored = latest.stored.max(*version);
            }
        }
    }

    /// An attempt's last report, unless it is stored.
    pub(crate) fn unstored(&self, reporter: Reporter) -> Option<Value> {
        let latest = self.latest();
        let latest = latest.get(&reporter).filter(|latest| latest.version > latest.stored)?;
        Some(latest.progress.clone())
    }

    /// An attempt's last report, unless it is stored. From now on the attempt `is_over`, and its reports are ignored.
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
        // While the batch is being stored.
        reports.report(reporter(1), &first, json!("more"));
        reports.stored(worker, &batch, &[batch.reports[0].id]);
        assert_eq!(reports.unstored(reporter(1)), Some(json!("more")));
        let batch = reports.new_under(worker);
        reports.stored(worker, &batch, &[]);
        assert_eq!(reports.new_under(worker).reports.len(), 1, "its row was locked");
        reports.stored(worker, &batch, &[batch.reports[0].id]);
        reports.report(reporter(1), &first, json!("more"));
        assert!(reports.new_under(worker).reports.is_empty(), "nothing new");
        assert_eq!(reports.take(reporter(1), &first), None);
        reports.report(reporter(2), &second, json!(1));
        assert_eq!(reports.take(reporter(2), &second), Some(json!(1)));
        assert_eq!(reports.take(reporter(2), &second), None);
        // A task that the work left running.
        reports.report(reporter(2), &second, json!(2));
        assert!(reports.latest().is_empty());
    }
}
